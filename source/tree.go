package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// maxTree bounds the files of an artifact once they are unpacked, and treeOverhead is what
// an archive may take for each besides: its header, and what fills it up.
const (
	maxTree      = 128 << 20
	maxTreeFiles = 20_000
	treeOverhead = 4 << 10
)

// tree fetches an artifact and returns its files, by their paths in it.
func (s *Store) tree(ctx context.Context, name string, plainHTTP bool) (map[string][]byte, plan.Address, error) {
	at, err := plan.ParseAddress(name)
	if err != nil {
		return nil, at, runner.Permanent(fmt.Errorf("%q %w", Public(name), err))
	}
	if s == nil {
		return nil, at, runner.Permanent(fmt.Errorf("%s: nothing is fetched here", Public(name)))
	}
	archive, err := s.Artifact(ctx, Artifact{Name: at.URL, PlainHTTP: plainHTTP})
	if err != nil {
		return nil, at, err
	}
	files, err := unpack(archive.Bytes)
	if err != nil {
		return nil, at, runner.WithHint(runner.Permanent(fmt.Errorf("%s: %w", Public(name), err)),
			"an artifact is a tar archive with gzip, as flux push artifact makes it")
	}
	return files, at, nil
}

// unpack reads the plain files of a tar archive with gzip. Links and devices are left out,
// and nothing leads out of the archive.
func unpack(archive []byte) (map[string][]byte, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, errors.New("is no archive with gzip")
	}
	tooMuch := fmt.Errorf("has more than %d MiB or %d files", maxTree>>20, maxTreeFiles)
	files, size := map[string][]byte{}, int64(0)
	// What is left out has to be read too, to get past it.
	whole := &io.LimitedReader{R: zipped, N: maxTree + maxTreeFiles*treeOverhead}
	for r := tar.NewReader(whole); ; {
		h, err := r.Next()
		switch {
		case err != nil && whole.N <= 0:
			return nil, tooMuch
		case errors.Is(err, io.EOF):
			return files, nil
		case err != nil:
			return nil, fmt.Errorf("the archive is damaged: %w", err)
		}
		name := path.Clean(strings.ReplaceAll(h.Name, `\`, "/"))
		if h.Typeflag != tar.TypeReg || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
			continue
		}
		src, err := io.ReadAll(io.LimitReader(r, maxTree-size+1))
		if err != nil && whole.N > 0 {
			return nil, fmt.Errorf("the archive is damaged: %w", err)
		}
		if size += int64(len(src)); err != nil || size > maxTree || len(files) == maxTreeFiles {
			return nil, tooMuch
		}
		files[name] = src
	}
}

func sortedNames(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }
