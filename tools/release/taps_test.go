// Package release has tests of the scripts beside it.
package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Homebrew and krew are told of a release by a commit in the repository that each reads.
// Who tells them twice changes nothing.
func TestTaps(t *testing.T) {
	dist := t.TempDir()
	cask := "cask \"kplan\" do\n  version \"1.2.3\"\nend\n"
	write(t, filepath.Join(dist, "homebrew/Casks/kplan.rb"), cask)
	write(t, filepath.Join(dist, "krew/kplan.yaml"), "kind: Plugin\n")
	tap, index := repository(t), repository(t)

	t.Setenv("TAP_TOKEN", "")
	assert.Contains(t, do(t, "./taps.sh", dist, tap, index), "TAP_TOKEN")
	assert.Equal(t, "begin\n", log(t, tap))

	t.Setenv("TAP_TOKEN", "s3cret")
	for range 2 {
		assert.NotContains(t, do(t, "./taps.sh", dist, tap, index), "s3cret")
		assert.Equal(t, "kplan 1.2.3\nbegin\n", log(t, tap))
		assert.Equal(t, "kplan 1.2.3\nbegin\n", log(t, index))
	}
	assert.Equal(t, cask, do(t, "git", "-C", tap, "show", "HEAD:Casks/kplan.rb"))
	assert.Equal(t, "kind: Plugin\n", do(t, "git", "-C", index, "show", "HEAD:plugins/kplan.yaml"))
}

// repository is a new one, with one commit, that can be pushed to.
func repository(t *testing.T) string {
	t.Helper()
	dir, work := t.TempDir(), t.TempDir()
	do(t, "git", "init", "--quiet", "--bare", dir)
	do(t, "git", "clone", "--quiet", dir, work)
	do(t, "git", "-C", work, "-c", "user.name=k", "-c", "user.email=k@localhost", "commit", "--quiet", "--allow-empty", "-m", "begin")
	do(t, "git", "-C", work, "push", "--quiet", "origin", "HEAD")
	return dir
}

// log is the subjects of the commits of a repository, the newest first.
func log(t *testing.T, dir string) string {
	t.Helper()
	return do(t, "git", "-C", dir, "log", "--format=%s")
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// do is what a command writes, which must not fail.
func do(t *testing.T, name string, args ...string) string {
	t.Helper()
	b, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoError(t, err, string(b))
	return string(b)
}
