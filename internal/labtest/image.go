package labtest

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Image builds a program of this module, and brings its image to the lab's node. A cluster
// of KPLAN_TEST_KUBECONFIG is expected to have it.
func (l *Lab) Image(t testing.TB, image, program string) {
	t.Helper()
	if os.Getenv(KubeconfigEnv) != "" {
		return
	}
	name := cmp.Or(l.name, nodeName)
	loading.Lock()
	defer loading.Unlock()
	if loaded[name+" "+image] {
		return
	}
	file, _, _ := strings.Cut(path.Base(image), ":")
	binary, err := compile("image-"+file, filepath.Dir(source()), "-ldflags", "-s -w", program)
	if err == nil {
		_, err = kplanLab("load", "--name", name, image, binary)
	}
	if err != nil {
		t.Fatalf("loading %s: %v", image, err)
	}
	loaded[name+" "+image] = true
}
