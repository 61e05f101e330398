package freeze

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/kplan-dev/kplan/runner"
)

// bundleVersion is the version of a bundle's form.
const bundleVersion = 1

const (
	// headName is the first entry of an archive, and filesName the folder of the files.
	headName  = "bundle.json"
	filesName = "files/"
)

// Bundle are the files of a plan, relative to the folder that has them all.
type Bundle struct {
	// Plan is the path of the plan's file among them.
	Plan string
	// Digest is that of names and content, as sha256:HEX.
	Digest string
	// Size is how many bytes the files have together.
	Size int64
	// Locked says that the plan has a lock file.
	Locked bool

	files []bundled
}

// bundled is a file of a bundle.
type bundled struct {
	name string
	text []byte
}

// head is what an archive says of itself.
type head struct {
	Version int    `json:"version"`
	Plan    string `json:"plan"`
	Digest  string `json:"digest"`
}

// Files are the names of the files, sorted.
func (b *Bundle) Files() []string {
	names := make([]string, len(b.files))
	for i, f := range b.files {
		names[i] = f.name
	}
	return names
}

// Archive packs the files into a tar.gz that has no times and no owners: the same files give
// the same bytes.
func (b *Bundle) Archive() ([]byte, error) {
	about, err := json.Marshal(head{bundleVersion, b.Plan, b.Digest})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zip)
	put := func(name string, text []byte) {
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text)), Format: tar.FormatPAX})
		}
		if err == nil {
			_, err = w.Write(text)
		}
	}
	put(headName, about)
	for _, f := range b.files {
		put(filesName+f.name, f.text)
	}
	if err = errors.Join(err, w.Close(), zip.Close()); err != nil {
		return nil, fmt.Errorf("packing the plan's files: %w", err)
	}
	return out.Bytes(), nil
}

// BundleError says that an archive is no bundle, or not the one that is wanted.
type BundleError struct{ why string }

func (e *BundleError) Error() string { return "the bundle of the plan cannot be used: " + e.why }

func invalid(format string, args ...any) error { return &BundleError{fmt.Sprintf(format, args...)} }

// Open reads an archive, and refuses one that is not of a digest. It writes nothing.
func Open(archive []byte, digest string) (*Bundle, error) {
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, invalid("it is no gzip archive")
	}
	r := tar.NewReader(zip)
	about, b := head{}, &Bundle{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, invalid("it is cut off or broken: %v", err)
		}
		text, err := b.entry(h, r)
		if err != nil {
			return nil, err
		}
		switch h.Name {
		case headName:
			if json.Unmarshal(text, &about) != nil || about.Version != bundleVersion {
				return nil, invalid("it is of another version than %d: it was made by another version of kplan", bundleVersion)
			}
		default:
			b.files = append(b.files, bundled{strings.TrimPrefix(h.Name, filesName), text})
		}
	}
	b.Plan, b.Digest = about.Plan, digestOf(about.Plan, b.files)
	if b.Digest != digest {
		return nil, runner.WithHint(invalid("it has the digest %s, and the rollout wants %s", b.Digest, digest), "somebody has changed it: freeze the fleet again")
	}
	return b, nil
}

// entry checks one entry of an archive, and reads it.
func (b *Bundle) entry(h *tar.Header, r io.Reader) ([]byte, error) {
	name := strings.TrimPrefix(h.Name, filesName)
	switch {
	case h.Typeflag != tar.TypeReg:
		return nil, invalid("%q is no plain file", h.Name)
	case h.Name != headName && (name == h.Name || !local(name)):
		return nil, invalid("%q leads out of the folder", h.Name)
	case len(b.files) > maxFiles:
		return nil, invalid("it has more than %d files", maxFiles)
	case h.Size > maxFile:
		return nil, invalid("%q has more than %d MiB", h.Name, maxFile>>20)
	}
	if b.Size += h.Size; b.Size > maxTotal {
		return nil, invalid("its files have more than %d MiB", maxTotal>>20)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, invalid("it is cut off or broken: %v", err)
	}
	return text, nil
}

// local reports whether a name stays below the folder that it is relative to.
func local(name string) bool {
	return name != "" && path.Clean(name) == name && filepath.IsLocal(filepath.FromSlash(name)) && !strings.ContainsAny(name, "\\\x00")
}

// Unpack writes the files below a folder, which it makes, and returns the path of the plan.
// Nothing that is there is written over.
func (b *Bundle) Unpack(dir string) (planFile string, err error) {
	if !local(b.Plan) {
		return "", invalid("the plan %q leads out of the folder", b.Plan)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir) // links in the folder lead nowhere else
	if err != nil {
		return "", err
	}
	defer root.Close()
	for _, f := range b.files {
		if err := writeFile(root, f); err != nil {
			return "", fmt.Errorf("unpacking the plan's files: %w", err)
		}
	}
	return filepath.Join(dir, filepath.FromSlash(b.Plan)), nil
}

func writeFile(root *os.Root, f bundled) error {
	name := filepath.FromSlash(f.name)
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	w, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(f.text)
	return errors.Join(err, w.Close())
}

// Sums are the SHA-256 of the files, in hex, by their names.
func (b *Bundle) Sums() map[string]string {
	sums := make(map[string]string, len(b.files))
	for _, f := range b.files {
		sum := sha256.Sum256(f.text)
		sums[f.name] = hex.EncodeToString(sum[:])
	}
	return sums
}
