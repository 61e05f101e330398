package main

import (
	"bufio"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
)

// reached gives the address of the proxy that a kubeconfig leads to.
func reached(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	require.NoError(t, err)
	u, err := url.Parse(config.Clusters["one"].Server)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	return u.Host
}

// terminal starts it on a terminal of its own, and gives the other end.
func (h *held) terminal() *os.File {
	h.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(h.t, err)
	require.NoError(h.t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(h.t, err)
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(h.t, err)
	h.cmd.Stdin, h.cmd.Stdout, h.cmd.Stderr = slave, slave, slave
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(h.t, h.cmd.Start())
	require.NoError(h.t, slave.Close())
	h.t.Cleanup(func() { _ = master.Close() }) // it may be closed
	h.stdout = bufio.NewReader(master)
	return master
}

// ^C is the command's: kplan waits for what that makes of it, once and twice, and
// hands on nothing that the terminal sent already.
func TestHoldInterrupted(t *testing.T) {
	h := hold(t, `n=0; trap 'n=$((n+1)); echo got $n; [ $n -lt 2 ] || exit 9' INT
test -t 0 && test -t 1 && test -t 2 && echo ready; while :; do sleep 0.01; done`)
	keys := h.terminal()
	require.Equal(t, "ready", h.line(), "the streams are the terminal")
	require.NoError(t, h.cmd.Process.Signal(os.Interrupt)) // which may be the terminal's
	time.Sleep(100 * time.Millisecond)
	_, err := keys.WriteString("\x03")
	require.NoError(t, err)
	require.Equal(t, "^Cgot 1", h.line())
	_, err = keys.WriteString("\x03")
	require.NoError(t, err)
	require.Equal(t, "^Cgot 2", h.line())
	require.Equal(t, 9, h.code())
	h.leavesNothing("")

	h = hold(t, `echo $$ $$ "$KUBECONFIG"; exec sleep 1000`)
	keys = h.terminal()
	pids, address := h.started()
	_, err = keys.WriteString("\x03")
	require.NoError(t, err)
	require.Equal(t, 130, h.code())
	h.leavesNothing(address, pids...)
}

// A terminal that is gone ends the command, and kplan with it.
func TestHoldTerminalGone(t *testing.T) {
	h := hold(t, script)
	terminal := h.terminal()
	pids, address := h.started()
	require.NoError(t, terminal.Close())
	require.Equal(t, 129, h.code())
	h.leavesNothing(address, pids...)
}

// cleansUp is a script that dies of ^C, but not what it starts.
const cleansUp = `sh -c 'trap "" INT; echo $$ "$KUBECONFIG"; exec sleep 1000' & exec sleep 1001`

// What a command that died of ^C had started got that too, and has the proxy until it
// is over; the next ^C ends it.
func TestHoldInterruptedLeavesWhatCleansUp(t *testing.T) {
	h := hold(t, cleansUp)
	h.cmd.Env = append(h.cmd.Env, "NO_COLOR=1")
	keys := h.terminal()
	words := strings.Fields(h.line())
	require.Len(t, words, 2)
	left, err := strconv.Atoi(words[0])
	require.NoError(t, err)
	_, err = keys.WriteString("\x03")
	require.NoError(t, err)
	require.Equal(t, "^Ckplan: sh was interrupted; waiting for what it started: process "+words[0], h.line())
	require.Equal(t, "kplan: hint: ^C again ends that", h.line())
	require.True(t, alive(left))
	address := reached(t, words[1])
	_, err = keys.WriteString("\x03")
	require.NoError(t, err)
	require.Equal(t, 130, h.code())
	h.leavesNothing(address, left)
}

// It may also end by itself.
func TestHoldInterruptedWaits(t *testing.T) {
	h := hold(t, cleansUp)
	h.cmd.Env = append(h.cmd.Env, "NO_COLOR=1")
	keys := h.terminal()
	words := strings.Fields(h.line())
	require.Len(t, words, 2)
	left, err := strconv.Atoi(words[0])
	require.NoError(t, err)
	_, err = keys.WriteString("\x03")
	require.NoError(t, err)
	require.Contains(t, h.line(), "waiting for what it started")
	require.NoError(t, syscall.Kill(left, syscall.SIGKILL))
	require.Equal(t, 130, h.code())
	h.leavesNothing("")
}

// What a command that was killed had started has time to write down how far it came.
func TestHoldCommandKilledLeavesTime(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	h := hold(t, `sh -c 'trap "echo told; read line <`+fifo+`; echo saved \$line; exit" TERM; echo $$ $1; while :; do sleep 0.01; done' sh $$ & wait`)
	words := strings.Fields(h.start())
	require.Len(t, words, 2)
	killed, err := strconv.Atoi(words[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
	require.Equal(t, "told", h.line())
	time.Sleep(5 * time.Second)                   // it takes that long
	saves, err := os.OpenFile(fifo, os.O_RDWR, 0) // nobody may read it any more
	require.NoError(t, err)
	defer saves.Close()
	_, err = saves.WriteString("all\n")
	require.NoError(t, err)
	require.Equal(t, "saved all", h.line())
	require.Equal(t, 137, h.code())
	h.leavesNothing("")
}

// What a command writes to its kubeconfig is lost, which it cannot know.
func TestHoldKubeconfigChanged(t *testing.T) {
	for _, change := range []string{`echo "# mine" >> "$KUBECONFIG"`, `rm "$KUBECONFIG"`} {
		h := hold(t, change)
		require.NoError(t, h.cmd.Start())
		require.Zero(t, h.code())
		require.Equal(t, "kplan: the command changed its kubeconfig, which is removed now: the change is lost\n"+
			"kplan: hint: what is to change your own kubeconfig is to run without kplan hold\n", h.stderr.String())
		h.leavesNothing("")
	}
}

// The exit code is the command's also where nobody reads what kplan says. A record
// that cannot be written is told all the same.
func TestHoldUnheard(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for script, code := range map[string]int{"exit 0": 0, "exit 7": 7} {
		for _, progress := range []string{"auto", "plain", "json"} {
			h := hold(t, `echo "# mine" >> "$KUBECONFIG"; `+script, "--progress", progress)
			h.cmd.Stderr = full
			require.NoError(t, h.cmd.Start())
			require.Equal(t, code, h.code(), progress)
		}
		h := hold(t, script, "--record", full.Name())
		require.NoError(t, h.cmd.Start())
		require.Equal(t, max(code, 1), h.code())
		require.Contains(t, h.stderr.String(), "error: writing progress: ")
	}
}
