// Package outfile writes the files that a command was asked for: whole or not at
// all, so that whoever stops kplan meanwhile leaves the file as it was, and for the
// user alone, for they tell what is in a cluster, but for what Publish writes.
//
// It does not know what is in them.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts b into the place of a file, or where none is. What is no regular file,
// such as a pipe, is written to.
func Write(path string, b []byte) error { return write(path, b, 0o600) }

// Publish is Write for a file that programs of other users are to read.
func Publish(path string, b []byte) error { return write(path, b, 0o644) }

// Replace is Write for a file of the user's, which keeps its mode.
func Replace(path string, b []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return write(path, b, info.Mode().Perm())
}

func write(path string, b []byte, mode os.FileMode) error {
	path, regular := target(path)
	if !regular {
		return os.WriteFile(path, b, 0)
	}
	tmp, err := beside(path)
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// Open opens a file that is written bit by bit, and empties it.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() { // pipes and devices are as they are
		if err = f.Chmod(0o600); err == nil { // it may have been there before
			err = f.Truncate(0)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Check returns why no file can be made where Write makes one.
func Check(path string) error {
	path, regular := target(path)
	if !regular { // to open a pipe would wait for its reader
		return nil
	}
	tmp, err := beside(path)
	if at := (*fs.PathError)(nil); errors.As(err, &at) { // nobody knows the file that it names
		err = at.Err
	}
	if err != nil {
		return fmt.Errorf("folder %s cannot be written to: %w", filepath.Dir(path), err)
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// Same reports whether two paths lead to one file, which need not exist.
func Same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y)
	}
	return (errX == nil) == (errY == nil) && resolved(a) == resolved(b)
}

// resolved is an absolute path whose folder has no links in it.
func resolved(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = filepath.Clean(path)
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(dir, filepath.Base(abs))
	}
	return abs
}

// target is where a path leads, for a link stays one, and whether that is a regular
// file, or none yet.
func target(path string) (string, bool) {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	info, err := os.Stat(path)
	return path, err != nil || info.Mode().IsRegular()
}

// beside makes a file next to one that it is to replace. Its mode is 0600.
func beside(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
}
