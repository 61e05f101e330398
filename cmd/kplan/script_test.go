package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/child"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/startup"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/rescue"
	"github.com/kplan-dev/kplan/internal/labtest"
)

var update = flag.Bool("update", false, "write the goldens in scripts anew")

// TestMain lets scripts run this test binary as kplan, and as a plugin of kubectl.
func TestMain(m *testing.M) {
	startup.Done()
	rescue.Main() // it runs this binary
	child.Main()  // and so does it
	testscript.Main(scripted{m}, map[string]func(){"kplan": main, "kubectl-kplan": main})
}

// scripted lets scripts run the kplan that $KPLAN names, as people have it. They start it
// some thousand times, and the race detector makes each start three times as long; what
// works side by side is tested without scripts. Unless one is named it is the test itself.
type scripted struct{ *testing.M }

func (m scripted) Run() int {
	built := os.Getenv("KPLAN")
	if built == "" {
		return m.M.Run()
	}
	dir, err := os.MkdirTemp("", "kplan-script-")
	for _, name := range []string{"kplan", "kubectl-kplan"} {
		err = errors.Join(err, os.Symlink(built, filepath.Join(dir, name)))
	}
	err = errors.Join(err, os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	return m.M.Run()
}

// TestScript runs the command lines that need no cluster.
func TestScript(t *testing.T) {
	testscript.Run(t, params("testdata/script"))
}

// TestClusterScript runs those that need an API server, each with a namespace
// of its own in $NS. That is deleted at the end, and webhook configurations and
// cluster roles with the label kplan.dev/script=$NS. At $REGISTRY answers a registry and a chart repository
// which have no charts, at $MANIFESTS that of manifestServer. $SOPS is a folder of
// files that sops encrypted, with the keys.
func TestClusterScript(t *testing.T) {
	lab := labtest.ControlPlane(t)
	client := lab.Clientset(t)
	registry := emptyRegistry(t)
	manifests := httptest.NewServer(manifestServer(t))
	t.Cleanup(manifests.Close)
	encrypted, err := filepath.Abs("../../source/sops/testdata")
	if err != nil {
		t.Fatal(err)
	}
	p := params("testdata/cluster")
	p.Setup = func(env *testscript.Env) error {
		script := filepath.Base(env.WorkDir)
		ns := fmt.Sprintf("%s-%d", strings.ReplaceAll(script, "_", "-"), os.Getpid())
		env.Setenv("NS", ns)
		env.Setenv("KUBECONFIG", lab.Kubeconfig)
		env.Setenv("REGISTRY", registry)
		env.Setenv("MANIFESTS", strings.TrimPrefix(manifests.URL, "http://"))
		env.Setenv("SOPS", encrypted)
		env.Setenv("KPLAN_CACHE", "off")
		env.Defer(func() {
			// It may be gone, or was never made: then there is nothing to take away.
			mine := metav1.ListOptions{LabelSelector: "kplan.dev/script=" + ns}
			_ = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, mine)
			_ = client.AdmissionregistrationV1().MutatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, mine)
			_ = client.RbacV1().ClusterRoleBindings().DeleteCollection(t.Context(), metav1.DeleteOptions{}, mine)
			_ = client.RbacV1().ClusterRoles().DeleteCollection(t.Context(), metav1.DeleteOptions{}, mine)
			_ = client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{})
		})
		return nil
	}
	testscript.Run(t, p)
}

// emptyRegistry is the address of an OCI registry that has no charts, and of a
// chart repository at /repository that has none either.
func emptyRegistry(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/repository/index.yaml" {
			_, _ = io.WriteString(w, "apiVersion: v1\nentries: {}\n")
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func params(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", "")
			packaging, err := filepath.Abs("../../packaging")
			env.Setenv("PATH", env.Getenv("PATH")+string(os.PathListSeparator)+packaging)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "unfold": unfold, "mode": mode},
	}
}

// exits runs a program and checks its exit code: exits CODE PROGRAM ARGS…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := &exec.ExitError{}
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exits with %d, not %d", code, want)
	}
}

// unfold replaces variables in files: unfold FILE…
func unfold(ts *testscript.TestScript, _ bool, files []string) {
	for _, f := range files {
		text := os.Expand(ts.ReadFile(f), func(name string) string {
			if name == "NS" || name == "MANIFESTS" {
				return ts.Getenv(name)
			}
			return "$" + name
		})
		ts.Check(os.WriteFile(ts.MkAbs(f), []byte(text), 0o600))
	}
}

// mode checks who may read and write a file: mode 600 FILE
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode BITS FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", info.Mode().Perm()); runtime.GOOS != "windows" && got != args[0] {
		ts.Fatalf("%s has mode %s, not %s", args[1], got, args[0])
	}
}
