package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// crash counts this start in dir and fails while the count is at most n. The
// folder must outlive the container: an emptyDir does, since the kubelet
// restarts a container inside the same pod.
func crash(dir string, n int, after time.Duration) error {
	if n <= 0 {
		return nil
	}
	file := filepath.Join(dir, "starts")
	count := 1
	text, err := os.ReadFile(file)
	switch {
	case err == nil:
		old, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		count = old + 1
	case !os.IsNotExist(err):
		return err
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(count)), 0o600); err != nil {
		return err
	}
	if count <= n {
		time.Sleep(after)
		return fmt.Errorf("crash %d of %d, as asked by --crash", count, n)
	}
	return nil
}
