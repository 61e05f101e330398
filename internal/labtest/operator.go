package labtest

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// OperatorImage is the image of the lab's stand-in operator, which the charts use.
const OperatorImage = "kplan.dev/lab-operator:dev"

// Operator brings the stand-in operator's image to the lab's node. A cluster of
// KPLAN_TEST_KUBECONFIG is expected to have it.
func (l *Lab) Operator(t testing.TB) {
	t.Helper()
	if os.Getenv(KubeconfigEnv) != "" {
		return
	}
	if err := operator(); err != nil {
		t.Fatalf("loading the stand-in operator: %v", err)
	}
}

// Charts is the folder of the lab's charts.
func Charts() string { return filepath.Join(source(), "charts") }

var operator = sync.OnceValue(func() error {
	dir := filepath.Join(os.TempDir(), "kplan-labtest")
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	command, err := build(dir)
	if err != nil {
		return err
	}
	binary := filepath.Join(dir, "operator")
	if _, err := run(source(), "env", "CGO_ENABLED=0", "go", "build", "-ldflags", "-s -w", "-o", binary, "./operator"); err != nil {
		return err
	}
	_, err = run("", command, "load", "--name", nodeName, OperatorImage, binary)
	return err
})

// source is the lab's module.
func source() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "lab")
}
