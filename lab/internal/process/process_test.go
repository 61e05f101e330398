//go:build linux

package process

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sleeper starts a process that ends only by a signal.
func sleeper(t *testing.T, dir, name string, script string) *Child {
	t.Helper()
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	child, err := Start(Spec{Name: name, Args: []string{shell, "-c", script}, Log: filepath.Join(dir, name+".log")}, dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = child.Signal(syscall.SIGKILL)
		<-child.Done()
	})
	return child
}

// A process is found by its record until it ends.
func TestStartStop(t *testing.T) {
	dir := t.TempDir()
	child := sleeper(t, dir, "one", "exec sleep 1000")
	found, err := Find(dir, "one")
	require.NoError(t, err)
	require.Equal(t, child.PID, found.PID)
	require.True(t, found.Alive())

	require.NoError(t, found.Stop(t.Context(), time.Minute))
	<-child.Done()
	require.False(t, found.Alive())
	require.ErrorContains(t, child.Err(), "terminated")
	require.NoError(t, found.Stop(t.Context(), time.Minute), "stopped already")
}

// Who does not listen to SIGTERM is killed.
func TestStopStubborn(t *testing.T) {
	dir := t.TempDir()
	child := sleeper(t, dir, "stubborn", "trap '' TERM; exec sleep 1000")
	require.NoError(t, child.Stop(t.Context(), 0))
	<-child.Done()
	require.ErrorContains(t, child.Err(), "killed")
}

// A record of an id that now belongs to another process signals nobody.
func TestReusedID(t *testing.T) {
	child := sleeper(t, t.TempDir(), "innocent", "exec sleep 1000")
	for name, record := range map[string]Record{
		"started at another time": {PID: child.PID, Start: child.Start + 1, Boot: child.Boot},
		"before the last boot":    {PID: child.PID, Start: child.Start, Boot: "another"},
		"empty":                   {},
	} {
		require.False(t, record.Alive(), name)
		require.NoError(t, record.Stop(t.Context(), 0), name)
	}
	require.True(t, child.Alive())
}

// Records come in the order in which their processes were started.
func TestList(t *testing.T) {
	dir := t.TempDir()
	none, err := List(filepath.Join(dir, "absent"))
	require.NoError(t, err)
	require.Empty(t, none)
	first, second := sleeper(t, dir, "z", "exec sleep 1000"), sleeper(t, dir, "a", "exec sleep 1000")
	records, err := List(dir)
	require.NoError(t, err)
	require.Len(t, records, 2)
	require.Equal(t, []int{first.PID, second.PID}, []int{records[0].PID, records[1].PID})
	_, err = Find(dir, "absent")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
