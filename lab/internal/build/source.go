package build

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// module is the first line of the lab's go.mod.
const module = "module github.com/kplan-dev/kplan/lab\n"

// ErrNoSource says that the lab's source tree cannot be found.
var ErrNoSource = errors.New("the lab's source tree cannot be found (run kplan-lab inside a checkout of kplan, or set KPLAN_LAB_SOURCE to its folder lab)")

// Source finds the lab's folder: $KPLAN_LAB_SOURCE, else upwards from the
// working folder and from this program, else where this program was built.
func Source() (string, error) {
	if dir := os.Getenv("KPLAN_LAB_SOURCE"); dir != "" {
		return filepath.Abs(dir)
	}
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if program, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(program))
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			for _, candidate := range []string{dir, filepath.Join(dir, "lab")} {
				if isLab(candidate) {
					return candidate, nil
				}
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", ErrNoSource
}

func isLab(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && bytes.HasPrefix(data, []byte(module))
}
