package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/runner"
)

// names lists a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "r.html")
	require.NoError(t, os.WriteFile(file, []byte("before, for all to read"), 0o644))
	require.NoError(t, writeWhole(file, []byte("after")))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "after", string(b))
	if runtime.GOOS != "windows" {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it is for the user alone")
	}
	require.Equal(t, []string{"r.html"}, names(t, dir), "nothing else is left")

	require.Error(t, writeWhole(filepath.Join(dir, "gone", "r.html"), nil))
	sub := filepath.Join(dir, "sub")
	require.NoError(t, os.Mkdir(sub, 0o755))
	require.Error(t, writeWhole(sub, []byte("x")), "a folder is no file")
	require.Equal(t, []string{"r.html", "sub"}, names(t, dir))
}

// TestWriteWholeToAPipe writes to what a shell makes of >(command).
func TestWriteWholeToAPipe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/fd")
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, writeWhole("/dev/fd/"+strconv.Itoa(int(w.Fd())), []byte("text")))
	require.NoError(t, w.Close())
	b := make([]byte, 10)
	n, err := r.Read(b)
	require.NoError(t, err)
	require.Equal(t, "text", string(b[:n]))
}

// TestReporter writes what is known when it is closed, one report after another's
// failure too.
func TestReporter(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "r.json")
	r := &reporter{files: []reportFile{{report.HTML, filepath.Join(dir, "gone", "r.html")}, {report.JSON, good}}}
	require.NoError(t, r.Close(), "a run that did not begin has no report")
	require.Empty(t, names(t, dir))
	r.Observe(runner.Event{Seq: 1, Time: time.Now(), Type: runner.TypePlan, Plan: "p", Steps: []runner.StepInfo{{Name: "a"}}})
	require.ErrorContains(t, r.Close(), "--report html="+filepath.Join(dir, "gone", "r.html"))
	b, err := os.ReadFile(good)
	require.NoError(t, err)
	require.Contains(t, string(b), `"state": "running"`)
}

func TestSameFile(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a", nil, 0o600))
	require.NoError(t, os.Link("a", "b"))
	require.NoError(t, os.Mkdir("d", 0o755))
	require.True(t, sameFile("a", "b"), "a second name")
	require.True(t, sameFile("d/../x", "./x"), "it need not exist")
	require.False(t, sameFile("a", "x"))
	require.False(t, sameFile("x", "y"))
}
