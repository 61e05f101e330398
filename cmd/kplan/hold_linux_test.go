package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

// nobody is a kubeconfig of clusters that are not there: nobody connects to them
// before a client does.
const nobody = `apiVersion: v1
kind: Config
current-context: a
clusters:
- {name: one, cluster: {server: "https://127.0.0.1:1"}}
- {name: two, cluster: {server: "https://127.0.0.1:2"}}
users:
- {name: root, user: {token: very-secret}}
contexts:
- {name: a, context: {cluster: one, user: root, namespace: apps}}
- {name: b, context: {cluster: two, user: root}}
- {name: c, context: {cluster: two, user: gone}}
`

// held is kplan hold at work: a process that was started, and what it leaves behind.
type held struct {
	t      *testing.T
	cmd    *exec.Cmd
	temp   string
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// hold makes kplan hold with a shell's script for a command. It has a temporary
// folder of its own, with nothing else in it.
func hold(t *testing.T, script string, flags ...string) *held {
	t.Helper()
	h := &held{t: t, temp: t.TempDir()}
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(nobody), 0o600))
	args := append([]string{"hold", "--kubeconfig", kubeconfig}, flags...)
	if script != "" {
		args = append(args, "--", "sh", "-c", script)
	}
	h.cmd = command(t, args...)
	h.cmd.Env = append(os.Environ(), "TMPDIR="+h.temp, "XDG_RUNTIME_DIR="+filepath.Dir(kubeconfig), "KUBERNETES_MASTER=https://127.0.0.1:3")
	h.cmd.Stderr = &h.stderr
	// What is ignored here, as in the background of a script, would be ignored there.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	return h
}

// by makes a script of bash start it, whose exec keeps the program's name.
func (h *held) by(script string) {
	h.t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		require.NotEqual(h.t, "true", os.Getenv("CI"), "CI has bash")
		h.t.Skip("needs bash")
	}
	h.cmd.Args = append([]string{"bash", "-c", script, "bash", h.cmd.Path}, h.cmd.Args[1:]...)
	h.cmd.Path = bash
}

// start starts it, and gives its first line.
func (h *held) start() string {
	h.t.Helper()
	h.startPiped()
	return h.line()
}

// startPiped starts it with a pipe to read its lines from.
func (h *held) startPiped() {
	h.t.Helper()
	stdout, err := h.cmd.StdoutPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, h.cmd.Start())
	h.stdout = bufio.NewReader(stdout)
}

func (h *held) line() string {
	h.t.Helper()
	line, err := h.stdout.ReadString('\n')
	require.NoError(h.t, err, &h.stderr)
	return strings.TrimSpace(line)
}

// code waits for its end, and gives the exit code.
func (h *held) code() int {
	h.t.Helper()
	err := h.cmd.Wait()
	exit := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		require.NoError(h.t, err)
	}
	return h.cmd.ProcessState.ExitCode()
}

// leavesNothing waits until none of its files, of the processes and of the addresses
// that it had are there any more.
func (h *held) leavesNothing(address string, pids ...int) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		left, err := os.ReadDir(h.temp)
		return err == nil && len(left) == 0
	}, time.Minute, 10*time.Millisecond, "files are left")
	for _, pid := range pids {
		require.Eventually(h.t, func() bool { return !alive(pid) }, time.Minute, 10*time.Millisecond, "a process is left")
	}
	require.Eventually(h.t, func() bool { return len(cleaners(h.t, h.temp)) == 0 }, time.Minute, 10*time.Millisecond, "the cleaner is left")
	if address != "" {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		require.ErrorIs(h.t, err, syscall.ECONNREFUSED, "the port is left")
	}
}

// alive tells whether a process is there, and not just waits to be looked at.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// cleaners are the processes that clean up in a folder.
func cleaners(t *testing.T, folder string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(`KPLAN_HOLD_CLEANER=["`+folder)) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

func TestHoldExitCodes(t *testing.T) {
	for script, code := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -9 $$": 137, "kill -TERM $$": 143} {
		h := hold(t, script)
		require.NoError(t, h.cmd.Start())
		require.Equal(t, code, h.code(), script)
		require.Empty(t, h.stderr.String(), "nothing was held")
		h.leavesNothing("")
	}
	file := filepath.Join(t.TempDir(), "no-program")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, code := range map[string]int{"no-such-command": 127, file: 126} {
		cmd := command(t, "hold", "--", name)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, code, cmd.ProcessState.ExitCode())
		require.Contains(t, string(out), "error: "+name+" cannot be run: ")
	}
}

// The command has a kubeconfig with the user's contexts and none of the user's
// credentials, for itself alone.
func TestHoldKubeconfig(t *testing.T) {
	h := hold(t, `stat -c %a "$KUBECONFIG" "$(dirname "$KUBECONFIG")"
echo "$KUBE_CONFIG_PATH $KUBE_CONFIG_PATHS $KUBERNETES_MASTER"; echo "$KUBECONFIG"; cat "$KUBECONFIG"`)
	require.Equal(t, "600", h.start())
	require.Equal(t, "700", h.line())
	paths := strings.Fields(h.line())
	path := h.line()
	require.Equal(t, []string{path, path}, paths)
	require.Equal(t, h.temp, filepath.Dir(filepath.Dir(path)), "the session's folder goes before a command under nohup does")
	rest, err := io.ReadAll(h.stdout)
	require.NoError(t, err)
	require.Zero(t, h.code(), h.stderr.String())
	require.NotContains(t, string(rest), "very-secret")
	config, err := clientcmd.Load(rest)
	require.NoError(t, err)
	require.Equal(t, "a", config.CurrentContext)
	require.Equal(t, "one", config.Contexts["a"].Cluster)
	require.Equal(t, "apps", config.Contexts["a"].Namespace)
	require.Equal(t, "two@b", config.Contexts["b"].Cluster, "each context has credentials, and so an address, of its own")
	require.Equal(t, "two@c", config.Contexts["c"].Cluster)
	require.Len(t, config.Contexts, 3)
	require.Len(t, config.AuthInfos, 1)
	for _, cluster := range config.Clusters {
		u, err := url.Parse(cluster.Server)
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1", u.Hostname())
	}
	h.leavesNothing("")

	h = hold(t, `cat "$KUBECONFIG"`, "--only-context", "--context", "b", "-n", "other")
	h.start()
	rest, err = io.ReadAll(h.stdout)
	require.NoError(t, err)
	require.Zero(t, h.code(), h.stderr.String())
	config, err = clientcmd.Load(append([]byte("apiVersion: v1\n"), rest...))
	require.NoError(t, err)
	require.Len(t, config.Contexts, 1)
	require.Equal(t, "b", config.CurrentContext)
	require.Equal(t, "other", config.Contexts["b"].Namespace)
}

// Where the network has a proxy, the command reaches the one of this machine without.
func TestHoldCommandUnproxied(t *testing.T) {
	h := hold(t, `echo "$NO_PROXY $no_proxy"`)
	h.cmd.Env = append(h.cmd.Env, "HTTPS_PROXY=http://proxy", "NO_PROXY=corp", "no_proxy=corp")
	require.Equal(t, "corp,127.0.0.1,::1,localhost corp,127.0.0.1,::1,localhost", h.start())
	require.Zero(t, h.code())
}

// What the command reads and writes is what kplan was given, to the end.
func TestHoldStreams(t *testing.T) {
	h := hold(t, "cat; echo said >&2; cat; echo $?")
	h.cmd.Stdin = strings.NewReader("hello\n")
	require.Equal(t, "hello", h.start())
	require.Equal(t, "0", h.line())
	require.Zero(t, h.code())
	require.Equal(t, "said\n", h.stderr.String())

	h.leavesNothing("")
}

// A stdin that is closed, or has nothing, is the command's too.
func TestHoldStdinClosed(t *testing.T) {
	for _, from := range []string{"<&-", "</dev/null"} {
		h := hold(t, `echo $$; read line || exit 3`)
		h.by(`exec -a kplan "$@" ` + from)
		pid, err := strconv.Atoi(h.start())
		require.NoError(t, err)
		require.Equal(t, 3, h.code(), from)
		h.leavesNothing("", pid)
	}
}

// While the command runs, kplan does not keep in memory what only its start needed.
func TestHoldMemory(t *testing.T) {
	h := hold(t, "cat /proc/$PPID/status", "--preflight", "off") // which looks beside the command
	h.start()
	status, err := io.ReadAll(h.stdout)
	require.NoError(t, err)
	require.Zero(t, h.code(), h.stderr.String())
	kib := map[string]int{}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib[name], _ = strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB")) // others are no numbers
	}
	require.NotZero(t, kib["RssFile"])
	require.Less(t, kib["RssFile"], (kib["VmHWM"]-kib["RssAnon"])*2/3)
}

// script says its process id and that of one which it starts, and waits.
const script = `sleep 1000 & echo $$ $! "$KUBECONFIG"; wait; wait`

// started starts it, if it was not, and gives what script says, and the proxy's address.
func (h *held) started() (pids []int, address string) {
	h.t.Helper()
	if h.stdout == nil {
		h.startPiped()
	}
	words := strings.Fields(h.line())
	require.Len(h.t, words, 3)
	for _, word := range words[:2] {
		pid, err := strconv.Atoi(word)
		require.NoError(h.t, err)
		pids = append(pids, pid)
	}
	return pids, reached(h.t, words[2])
}

// Whoever kills kplan leaves nothing behind.
func TestHoldKilled(t *testing.T) {
	h := hold(t, script)
	pids, address := h.started()
	require.Len(t, cleaners(t, h.temp), 1)
	require.NoError(t, h.cmd.Process.Kill())
	require.Equal(t, -1, h.code())
	h.leavesNothing(address, pids...)
}

// A command that heeds no signal is gone all the same, and what it started.
func TestHoldKilledWithACommandThatDoesNotHeed(t *testing.T) {
	h := hold(t, `trap "" TERM HUP; `+script)
	pids, address := h.started()
	require.NoError(t, h.cmd.Process.Kill())
	require.Equal(t, -1, h.code())
	h.leavesNothing(address, pids...)
}

// A command that was killed did not end what it had started.
func TestHoldCommandKilled(t *testing.T) {
	h := hold(t, script)
	pids, address := h.started()
	require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
	require.Equal(t, 137, h.code())
	h.leavesNothing(address, pids...)
}

// Signals to kplan are the command's, who decides what they mean.
func TestHoldHandsSignalsOn(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{
		syscall.SIGTERM: 43, syscall.SIGHUP: 41, syscall.SIGINT: 42, syscall.SIGUSR1: 44,
	} {
		h := hold(t, `trap "exit 41" HUP; trap "exit 42" INT; trap "exit 43" TERM; trap "exit 44" USR1
echo "$KUBECONFIG"; while :; do sleep 0.01; done`)
		h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal
		h.start()
		require.NoError(t, h.cmd.Process.Signal(sig))
		require.Equal(t, code, h.code(), sig.String())
		h.leavesNothing("")
	}
}

// Without a command the proxy serves until it is stopped.
func TestHoldServes(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGKILL: -1} {
		dir := t.TempDir()
		kubeconfig, token := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "token")
		h := hold(t, "", "--listen", "127.0.0.1:0", "--kubeconfig-out", kubeconfig, "--token-out", token)
		h.cmd.Stderr = nil
		stderr, err := h.cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, h.cmd.Start())
		h.stdout = bufio.NewReader(stderr)
		line := h.line()
		require.Contains(t, line, "kplan: serves context a at 127.0.0.1:")
		require.Contains(t, line, "KUBECONFIG="+kubeconfig)
		config, err := clientcmd.LoadFromFile(kubeconfig)
		require.NoError(t, err)
		secret, err := os.ReadFile(token)
		require.NoError(t, err)
		require.Equal(t, config.AuthInfos["kplan-hold"].Token, string(secret))
		u, err := url.Parse(config.Clusters["one"].Server)
		require.NoError(t, err)
		require.NoError(t, h.cmd.Process.Signal(sig))
		rest, err := io.ReadAll(h.stdout)
		require.NoError(t, err)
		require.Empty(t, string(rest))
		require.Equal(t, code, h.code())
		h.leavesNothing(u.Host)
		require.Eventually(t, func() bool {
			left, err := os.ReadDir(dir)
			return err == nil && len(left) == 0
		}, time.Minute, 10*time.Millisecond, "files are left")
	}
}

// A signal that is ignored, as under nohup, is ignored by the command too.
func TestHoldUnderNohup(t *testing.T) {
	h := hold(t, `kill -HUP $$; echo alive`)
	h.by(`trap "" HUP; exec -a kplan "$@"`)
	require.Equal(t, "alive", h.start())
	require.Zero(t, h.code())
}
