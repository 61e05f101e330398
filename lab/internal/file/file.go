// Package file writes files that other processes read. It does not lock them: of
// two who write at once, the last one wins.
package file

import (
	"errors"
	"os"
	"path/filepath"
)

// Write writes a file for its owner alone, whole or not at all: whoever reads
// it meanwhile finds what was there before.
func Write(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // readable by the owner alone
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
