package labtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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
	if err := load(cmp.Or(l.name, nodeName)); err != nil {
		t.Fatalf("loading the stand-in operator: %v", err)
	}
}

// Registry is the address, as host:port, of the registry that serves the lab's
// charts as oci://ADDRESS/charts/NAME without TLS. The test is skipped with a
// cluster of KPLAN_TEST_KUBECONFIG, which has none.
func Registry(t testing.TB) string {
	t.Helper()
	ControlPlane(t)
	if os.Getenv(KubeconfigEnv) != "" {
		t.Skip("the lab's registry is not there; " + KubeconfigEnv + " is set")
	}
	address, err := registry()
	if err != nil {
		unavailable(t, err)
	}
	return address
}

var registry = sync.OnceValues(func() (string, error) {
	out, err := kplanLab("status", "--name", controlPlaneName, "-o", "json")
	if err != nil {
		return "", err
	}
	var status struct{ Registry string }
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		return "", err
	}
	if status.Registry == "" {
		return "", errors.New("the lab has no registry")
	}
	return status.Registry, nil
})

// Charts is the folder of the lab's charts.
func Charts() string { return filepath.Join(source(), "charts") }

// load builds the operator once, and gives it to the node of a lab.
func load(name string) error {
	binary, err := operator()
	if err != nil {
		return err
	}
	loading.Lock()
	defer loading.Unlock()
	if loaded[name] {
		return nil
	}
	if _, err := kplanLab("load", "--name", name, OperatorImage, binary); err != nil {
		return err
	}
	loaded[name] = true
	return nil
}

var (
	loading sync.Mutex // guards loaded
	loaded  = map[string]bool{}
)

// operator builds the stand-in operator and gives its binary's path.
var operator = sync.OnceValues(func() (string, error) {
	return compile("operator", source(), "-ldflags", "-s -w", "./operator")
})
