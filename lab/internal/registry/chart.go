package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// chart is a packaged chart folder.
type chart struct {
	name, version string
	metadata      map[string]any // Chart.yaml
	archive       []byte         // what helm package makes
}

// tag is the chart's tag: OCI allows no "+" in it, so Helm writes "_".
func (c chart) tag() string { return strings.ReplaceAll(c.version, "+", "_") }

// pack makes a chart's archive. It is the same for the same files, since times
// and owners are left out. Links to files are followed, as Helm does; .helmignore is
// not heeded.
func pack(dir string) (chart, error) {
	text, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return chart{}, err
	}
	var c chart
	if err := yaml.Unmarshal(text, &c.metadata); err != nil {
		return chart{}, fmt.Errorf("cannot parse Chart.yaml: %w", err)
	}
	c.name, _ = c.metadata["name"].(string)
	c.version, _ = c.metadata["version"].(string)
	if c.name == "" || c.version == "" {
		return chart{}, errors.New("name and version in Chart.yaml must be strings")
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	root := os.DirFS(dir)
	err = fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(c.name, file), Mode: 0o644, Size: int64(len(body)), ModTime: time.Unix(0, 0),
		}); err != nil {
			return err
		}
		_, err = archive.Write(body)
		return err
	})
	if err := errors.Join(err, archive.Close(), zip.Close()); err != nil {
		return chart{}, err
	}
	c.archive = out.Bytes()
	return c, nil
}
