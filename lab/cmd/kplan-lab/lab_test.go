//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/lab/internal/cluster"
)

// TestMain lets the test binary be kplan-lab itself: labs start their
// processes by starting the program that they were made by.
func TestMain(m *testing.M) {
	if os.Getenv("KPLAN_LAB_TEST_MAIN") != "" || len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "internal-") {
		main()
		return
	}
	os.Exit(m.Run())
}

// bench is a home for labs of this test alone.
type bench struct {
	t    *testing.T
	home string
	name string
	host []string // hostFolders before the lab was there
}

func newBench(t *testing.T, name string) *bench {
	t.Helper()
	home, err := os.MkdirTemp("", "lab") //nolint:usetesting // short, since it is part of socket paths
	require.NoError(t, err)
	b := &bench{t: t, home: home, name: name, host: hostFolders()}
	t.Cleanup(func() {
		_, _ = b.try("down")
		_ = os.RemoveAll(home)
	})
	return b
}

func (b *bench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"--name", b.name}, args...)...)
	cmd.Env = append(os.Environ(), "KPLAN_LAB_TEST_MAIN=1", "KPLAN_LAB_HOME="+b.home)
	return cmd
}

// try runs kplan-lab and returns all that it prints.
func (b *bench) try(args ...string) (string, error) {
	out, err := b.command(args...).CombinedOutput()
	return string(out), err
}

func (b *bench) run(args ...string) string {
	b.t.Helper()
	out, err := b.try(args...)
	require.NoError(b.t, err, "kplan-lab %v: %s", args, out)
	return out
}

func (b *bench) status() cluster.Status {
	b.t.Helper()
	out, err := b.command("status", "-o", "json").Output()
	require.NoError(b.t, err)
	var s cluster.Status
	require.NoError(b.t, json.Unmarshal(out, &s))
	return s
}

// needRoot skips a test of real nodes where there can be none; with CI=true
// that is a failure, so that nothing is left out unseen.
func needRoot(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real cluster; not with -short")
	}
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("a lab with a node needs root")
		}
		t.Skip("a lab with a node needs root")
	}
}

// The life of a lab: it comes up, works, survives a second up, repairs
// itself, and goes without a trace.
func TestLab(t *testing.T) {
	needRoot(t)
	b := newBench(t, "e2e")
	port := freePort(t)
	links, rules := output(t, "ip", "-o", "link"), output(t, "nft", "list", "ruleset")

	t.Log(b.run("up", "--audit", "--forward", fmt.Sprintf("127.0.0.1:%d=10.96.0.10:53", port)))
	up := b.status()
	require.Equal(t, cluster.Running, up.State, up.Fault)
	require.Contains(t, b.run("kubectl", "get", "nodes"), "Ready")
	require.Contains(t, b.run("kubectl", "version"), "Server Version: v1.36.3")

	t.Run("up again changes nothing", func(t *testing.T) {
		require.Contains(t, b.run("up"), "is up already")
		require.Equal(t, up.Components, b.status().Components)
	})
	testWorks(t, b, up, port)
	t.Run("a broken lab is made anew", func(t *testing.T) {
		kill(t, up, "etcd")
		broken := b.status()
		require.Equal(t, cluster.Broken, broken.State)
		require.Contains(t, broken.Fault, "etcd")
		require.Contains(t, b.run("up"), "starting it anew")
		require.Equal(t, cluster.Running, b.status().State)
	})

	before := traces(t, b)
	require.NotEmpty(t, before.processes)
	require.NotEmpty(t, before.groups, "pods have control groups")
	b.run("down")
	requireNoTrace(t, before)
	require.Equal(t, links, output(t, "ip", "-o", "link"))
	require.Equal(t, rules, output(t, "nft", "list", "ruleset"))
	require.Contains(t, b.run("down"), "there is no lab e2e")
}

// testWorks uses a lab as its users do; port leads to its DNS server.
func testWorks(t *testing.T, b *bench, up cluster.Status, port int) {
	t.Helper()
	t.Run("DNS resolves Services, through kube-proxy, and nothing else", func(t *testing.T) {
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		}}
		addresses, err := resolver.LookupHost(t.Context(), "kubernetes.default.svc.cluster.local.")
		require.NoError(t, err)
		require.Equal(t, []string{"10.96.0.1"}, addresses)
		_, err = resolver.LookupHost(t.Context(), "example.com.")
		require.Error(t, err)
	})
	t.Run("a loaded image runs as a pod", func(t *testing.T) {
		b.run("load", "kplan.dev/e2e/pause:dev", buildPause(t))
		b.run("kubectl", "run", "idle", "--image=kplan.dev/e2e/pause:dev", "--image-pull-policy=IfNotPresent")
		b.run("kubectl", "wait", "pod/idle", "--for=condition=Ready", "--timeout=60s")
	})
	t.Run("charts are served", func(t *testing.T) {
		response, err := http.Get("http://" + up.Registry + "/v2/_catalog")
		require.NoError(t, err)
		defer response.Body.Close()
		catalog, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Contains(t, string(catalog), `"charts/operator"`)
	})
	t.Run("the API server restarts and keeps its state", func(t *testing.T) {
		b.run("restart", "apiserver")
		require.Contains(t, b.run("kubectl", "get", "pod", "idle"), "idle")
	})
	t.Run("the audit log is written", func(t *testing.T) {
		log, err := os.ReadFile(up.AuditLog)
		require.NoError(t, err)
		require.Contains(t, string(log), `"userAgent":"kubectl`)
		require.NotContains(t, string(log), `"username":"system:serviceaccount:`)
	})
}

// Interrupted in the middle, up cleans up after itself.
func TestUpInterrupted(t *testing.T) {
	needRoot(t)
	b := newBench(t, "cut")
	cmd := b.command("up")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	// The first line with a time comes when containerd or the API server
	// runs, so processes, mounts and network are there.
	said := readUntil(t, stderr, "  ")
	before := traces(t, b)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(stderr)
	require.NoError(t, err)
	var exit *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &exit), "%s%s", said, rest)
	require.Equal(t, 130, exit.ExitCode(), "%s%s", said, rest)
	requireNoTrace(t, before)
}

// Without a node a lab is a control plane that needs no containers.
func TestControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real API server; not with -short")
	}
	b := newBench(t, "cp")
	t.Log(b.run("up", "--nodes", "0"))
	require.Contains(t, b.run("kubectl", "get", "serviceaccounts"), "default")
	out, err := b.try("up")
	require.Error(t, err, "it has no node, and --nodes 1 was asked for")
	require.Contains(t, out, "is up with --nodes 0")
	before := traces(t, b)
	b.run("down")
	requireNoTrace(t, before)
}

// Two labs live side by side; the end of one is nothing to the other.
func TestTwoLabs(t *testing.T) {
	needRoot(t)
	one, two := newBench(t, "same"), newBench(t, "same")
	one.run("up")
	two.run("up")
	require.NotEqual(t, one.status().Server, two.status().Server)
	two.run("down")
	require.Equal(t, cluster.Running, one.status().State)
	require.Contains(t, one.run("kubectl", "get", "--raw", "/api/v1/nodes/lab/proxy/healthz"), "ok")
}

// Wrong usage exits with 2 and says what is wrong.
func TestUsage(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "foo"`:            {"foo"},
		"unknown flag: --bar":              {"up", "--bar"},
		"accepts 1 arg(s), received 0":     {"restart"},
		"a lab has one node, or none":      {"up", "--nodes", "3"},
		"want table or json":               {"status", "-o", "yaml"},
		`lab name "A_B": want at most`:     {"--name", "A_B", "status"},
		"there is no such lab":             {"kubectl", "get", "nodes"},
		"requires at least 1 arg(s), only": {"exec"},
	} {
		b := newBench(t, "usage")
		out, err := b.try(args...)
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit), "%v: %s", args, out)
		require.Contains(t, out, "error: ")
		require.Contains(t, out, want)
		if !strings.Contains(want, "no such lab") {
			require.Equal(t, 2, exit.ExitCode(), "%v: %s", args, out)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "" // not installed before the first up; then there are no rules
	}
	require.NoError(t, err, "%s %v: %s", program, args, out)
	return string(out)
}

func buildPause(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pause")
	cmd := exec.Command("go", "build", "-o", path, "../pause")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

func kill(t *testing.T, s cluster.Status, component string) {
	t.Helper()
	for _, c := range s.Components {
		if c.Name == component {
			require.NoError(t, syscall.Kill(c.PID, syscall.SIGKILL))
			for alive(strconv.Itoa(c.PID)) {
				// A killed process is gone in a moment; the test's own
				// deadline ends the wait if it is not.
			}
		}
	}
}

func readUntil(t *testing.T, r io.Reader, prefix string) string {
	t.Helper()
	var said strings.Builder
	for one := make([]byte, 1); ; {
		_, err := r.Read(one)
		require.NoError(t, err, said.String())
		said.Write(one)
		lines := strings.Split(said.String(), "\n")
		for _, line := range lines[:len(lines)-1] {
			if strings.HasPrefix(line, prefix) {
				return said.String()
			}
		}
	}
}
