// Package files finds the files that the paths and globs of a plan mean, and says
// in few words why one is of no use. It knows nothing of what is in them.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What can be wrong with a path.
var (
	ErrFolder  = errors.New("is a folder")
	ErrMissing = errors.New("there is no such file")

	errNotPlain = errors.New("is not a plain file")
)

// Abs returns the absolute path of a name that is relative to a folder.
func Abs(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// Expand returns the files that a path or glob means, sorted; it is relative to a
// folder. A file whose name looks like a glob is taken as the file.
func Expand(dir, name string) ([]string, error) {
	full := Abs(dir, name)
	info, err := os.Stat(full)
	switch {
	case err == nil && info.IsDir():
		return nil, ErrFolder
	case err == nil:
		return []string{full}, nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(name, `*?[`):
		return nil, Reason(err)
	}
	if strings.Contains(name, "**") {
		return nil, errors.New("** is not understood in a glob")
	}
	// Only the plan's own part is a pattern, not the folder that it happens to be in.
	var found []string
	if filepath.IsAbs(name) {
		found, err = filepath.Glob(full)
	} else {
		found, err = globIn(dir, filepath.Clean(name))
	}
	if err != nil {
		return nil, errors.New("the glob is malformed")
	}
	found = slices.DeleteFunc(found, func(f string) bool {
		info, err := os.Stat(f)
		return err != nil || info.IsDir()
	})
	if len(found) == 0 {
		return nil, errors.New("the glob matches no file")
	}
	slices.Sort(found)
	return found, nil
}

// globIn matches a relative pattern, which may start with ../, below dir.
func globIn(dir, pattern string) ([]string, error) {
	for strings.HasPrefix(pattern, "../") {
		dir, pattern = filepath.Dir(dir), strings.TrimPrefix(pattern, "../")
	}
	found, err := fs.Glob(os.DirFS(dir), filepath.ToSlash(pattern))
	for i, f := range found {
		found[i] = filepath.Join(dir, f)
	}
	return found, err
}

// Reason leaves out of an error the path and the system call, which messages name
// already.
func Reason(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrMissing
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Read reads a file that somebody named on the command line, up to one byte more
// than the most that is of use: the caller refuses that.
func Read(name string, most int64) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, errors.New("is a folder, not a file")
	}
	src, err := read(name, most)
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err // the position and the message name the path already
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the file: %w", err)
	}
	return src, nil
}

// ReadPlain is Read for a file that a plan names: it must be neither a folder nor a
// device.
func ReadPlain(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, ErrFolder
	case !info.Mode().IsRegular():
		return nil, errNotPlain
	}
	return read(name, most)
}

func read(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}
