package labtest

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Image builds a program of this module, brings its image to the lab's node, and returns the
// binary's path. A cluster of KPLAN_TEST_KUBECONFIG is expected to have the image.
func (l *Lab) Image(t testing.TB, image, program string) string {
	t.Helper()
	loading.Lock()
	defer loading.Unlock()
	name, file := cmp.Or(l.name, nodeName), strings.ReplaceAll(path.Base(image), ":", "-")
	binary, err := filepath.Join(os.TempDir(), "kplan-labtest", file), error(nil)
	if loaded[name+" "+image] {
		return binary
	}
	if binary, err = compile(file, filepath.Dir(source()), "-ldflags", "-s -w", program); err == nil && os.Getenv(KubeconfigEnv) == "" {
		_, err = kplanLab("load", "--name", name, image, binary)
	}
	if err != nil {
		t.Fatalf("loading %s: %v", image, err)
	}
	loaded[name+" "+image] = true
	return binary
}
