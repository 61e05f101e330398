package outfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
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

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "r.html")
	require.NoError(t, os.WriteFile(file, []byte("before, for all to read"), 0o644))
	require.NoError(t, outfile.Write(file, []byte("after")))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "after", string(b))
	if runtime.GOOS != "windows" {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it is for the user alone")
	}
	require.Equal(t, []string{"r.html"}, names(t, dir), "nothing else is left")

	require.Error(t, outfile.Write(filepath.Join(dir, "gone", "r.html"), nil))
	sub := filepath.Join(dir, "sub")
	require.NoError(t, os.Mkdir(sub, 0o755))
	require.Error(t, outfile.Write(sub, []byte("x")), "a folder is no file")
	require.Equal(t, []string{"r.html", "sub"}, names(t, dir))
}

// TestWriteToAPipe writes to what a shell makes of >(command).
func TestWriteToAPipe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/fd")
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, outfile.Write("/dev/fd/"+strconv.Itoa(int(w.Fd())), []byte("text")))
	require.NoError(t, w.Close())
	b := make([]byte, 10)
	n, err := r.Read(b)
	require.NoError(t, err)
	require.Equal(t, "text", string(b[:n]))
}

func TestSameFile(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a", nil, 0o600))
	require.NoError(t, os.Link("a", "b"))
	require.NoError(t, os.Mkdir("d", 0o755))
	require.True(t, outfile.Same("a", "b"), "a second name")
	require.True(t, outfile.Same("d/../x", "./x"), "it need not exist")
	require.False(t, outfile.Same("a", "x"))
	require.False(t, outfile.Same("x", "y"))
}
