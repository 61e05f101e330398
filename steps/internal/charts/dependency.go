package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// deepest bounds how many charts may stand in each other.
const deepest = 20

// dependencies finds the charts that a chart of a folder depends on and does not have
// in charts/. Nothing is written: they are put into the chart in memory.
type dependencies struct {
	helm engine.Engine
	from *source.Store
	// within are the folders of the charts around the one that is looked at.
	within []string
}

// complete returns a chart with its dependencies; dir is its folder, "" for an archive.
func (d dependencies) complete(ctx context.Context, ch *engine.Chart, dir string) (*engine.Chart, error) {
	more, err := d.missing(ctx, ch, dir)
	if err != nil || len(more) == 0 {
		return ch, err
	}
	return d.load(slices.Concat(ch.Raw, more))
}

// load makes a chart of its files.
func (d dependencies) load(files []*engine.File) (*engine.Chart, error) {
	var out bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&out, gzip.NoCompression) // the level is a good one
	tape := tar.NewWriter(zip)
	for _, f := range files {
		err := tape.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "chart/" + f.Name, Mode: 0o644, Size: int64(len(f.Data)), ModTime: f.ModTime})
		if err == nil {
			_, err = tape.Write(f.Data)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := errors.Join(tape.Close(), zip.Close()); err != nil {
		return nil, err
	}
	ch, err := d.helm.LoadArchive(&out)
	if err != nil {
		return nil, runner.Permanent(err)
	}
	return ch, nil
}

// missing returns the files of the charts that are not in charts/, with what these
// lack themselves, as they would stand there.
func (d dependencies) missing(ctx context.Context, ch *engine.Chart, dir string) ([]*engine.File, error) {
	if len(d.within) > deepest || dir != "" && slices.Contains(d.within, dir) {
		return nil, fmt.Errorf("chart %s depends on itself", ch.Metadata.Name)
	}
	d.within = append(slices.Clip(d.within), dir)
	var more []*engine.File
	has := map[string]bool{}
	for _, sub := range ch.Dependencies() {
		has[sub.Name()] = true
		at := filepath.Join(dir, "charts", sub.Name())
		if _, err := os.Stat(filepath.Join(at, "Chart.yaml")); dir == "" || err != nil {
			continue // it came in an archive
		}
		files, err := d.missing(ctx, sub, at)
		if err != nil {
			return nil, err
		}
		more = append(more, inside(sub.Name(), files)...)
	}
	locked := sync.OnceValues(func() (map[string]string, error) { return lockedVersions(ch) })
	for _, dep := range ch.Metadata.Dependencies {
		if dep == nil || has[dep.Name] || dep.Repository == "" {
			continue // usable tells of those that are nowhere
		}
		locked, err := locked() // what is there already nobody compares with it, as in Helm
		if err != nil {
			return nil, err
		}
		has[dep.Name] = true // an alias means the same chart again
		files, err := d.find(ctx, *dep, locked, dir)
		if err != nil {
			return nil, dependencyError(dep.Name, err)
		}
		more = append(more, inside(dep.Name, files)...)
	}
	return more, nil
}

func dependencyError(name string, err error) error {
	wrapped := fmt.Errorf("dependency %s: %w", name, err)
	if runner.HintOf(err) == "" {
		return runner.WithHint(wrapped, "or fetch it with: helm dependency build")
	}
	return wrapped
}

// inside returns files as those of a subchart.
func inside(name string, files []*engine.File) []*engine.File {
	var out []*engine.File
	for _, f := range files {
		out = append(out, &engine.File{Name: "charts/" + name + "/" + f.Name, ModTime: f.ModTime, Data: f.Data})
	}
	return out
}

// find returns the files of a dependency, with those of its own.
func (d dependencies) find(ctx context.Context, dep engine.Dependency, locked map[string]string, dir string) ([]*engine.File, error) {
	if path, ok := strings.CutPrefix(dep.Repository, "file://"); ok {
		return d.beside(ctx, dep, path, dir)
	}
	if d.from == nil {
		return nil, nil
	}
	c := source.Chart{Name: dep.Name, Repo: strings.TrimSuffix(dep.Repository, "/"), Version: dep.Version}
	if v := locked[dep.Name]; v != "" {
		c.Version = v
	}
	switch alias, named := strings.CutPrefix(c.Repo, "@"); {
	case named:
		c.Repo = alias
	case strings.HasPrefix(c.Repo, "alias:"):
		c.Repo = strings.TrimPrefix(c.Repo, "alias:")
	case strings.HasPrefix(c.Repo, "oci://"):
		c.Name, c.Repo = c.Repo+"/"+c.Name, ""
	}
	archive, err := d.from.Chart(ctx, c)
	if err != nil {
		return nil, err
	}
	ch, err := d.helm.LoadArchive(bytes.NewReader(archive.Bytes))
	if err != nil {
		return nil, runner.Permanent(err)
	}
	return d.with(ctx, ch, "")
}

// beside returns the files of a chart in another folder, or of an archive.
func (d dependencies) beside(ctx context.Context, dep engine.Dependency, path, dir string) ([]*engine.File, error) {
	if dir == "" {
		return nil, runner.Permanent(fmt.Errorf("file://%s has no meaning in an archive", path))
	}
	at := filepath.Clean(filepath.FromSlash(path))
	if !filepath.IsAbs(at) {
		at = filepath.Join(dir, at)
	}
	sub, err := d.helm.Load(at)
	if err != nil {
		return nil, runner.Permanent(fmt.Errorf("reading file://%s: %w", path, err))
	}
	if sub.Name() != dep.Name {
		return nil, runner.Permanent(fmt.Errorf("the chart at file://%s is %s", path, sub.Name()))
	}
	if err := fits(dep.Version, sub.Metadata.Version); err != nil {
		return nil, runner.Permanent(fmt.Errorf("the chart at file://%s: %w", path, err))
	}
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		at = ""
	}
	return d.with(ctx, sub, at)
}

// with returns the files of a chart with those of the charts that it lacks.
func (d dependencies) with(ctx context.Context, ch *engine.Chart, dir string) ([]*engine.File, error) {
	more, err := d.missing(ctx, ch, dir)
	return slices.Concat(ch.Raw, more), err
}

// fits looks whether a version is one that a constraint allows.
func fits(constraint, version string) error {
	if constraint == "" {
		return nil
	}
	c, err := semver.NewConstraint(constraint)
	if err != nil {
		return fmt.Errorf("version %q: %w", constraint, err)
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return fmt.Errorf("version %q: %w", version, err)
	}
	if !c.Check(v) {
		return fmt.Errorf("its version is %s, wanted is %s", version, constraint)
	}
	return nil
}

// lockedVersions are those of Chart.lock, by names. One that is not of the chart's
// dependencies any more is refused, as helm dependency build does.
func lockedVersions(ch *engine.Chart) (map[string]string, error) {
	if ch.Lock == nil || ch.Metadata.APIVersion != "v2" { // older ones have other digests
		return nil, nil
	}
	b, err := json.Marshal([2][]*engine.Dependency{ch.Metadata.Dependencies, ch.Lock.Dependencies})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	if ch.Lock.Digest != "" && ch.Lock.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		return nil, runner.WithHint(runner.Permanent(errors.New("the lock file Chart.lock is not of the dependencies in Chart.yaml")), "write it anew with: helm dependency update")
	}
	versions := map[string]string{}
	for _, d := range ch.Lock.Dependencies {
		versions[d.Name] = d.Version
	}
	return versions, nil
}
