// Package npmtest gives tests what npm installs for them, by the package.json and
// package-lock.json of a folder under testdata.
//
// It updates nothing: npm ci takes the very versions of the lock file.
package npmtest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Install gives a copy of dir with its packages under node_modules. It stays in
// the user's cache for the next time, until the lock file changes. Without node
// and npm the test is skipped; in CI (CI=true) it fails.
func Install(t testing.TB, dir string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs npm; left out by -short")
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("the test needs %s: %v", tool, err)
			}
			t.Skipf("skipped for want of %s: %v", tool, err)
		}
	}
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	require.NoError(t, err)
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	sum := sha256.Sum256(lock)
	done := filepath.Join(cache, "kplan-npm-test", filepath.Base(dir)+"-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(done); err == nil {
		return done
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(done), 0o755))
	tmp, err := os.MkdirTemp(filepath.Dir(done), "new-") //nolint:usetesting // it is renamed, which needs the same file system
	require.NoError(t, err)
	defer os.RemoveAll(tmp)
	require.NoError(t, os.CopyFS(tmp, os.DirFS(dir)))
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = tmp
	said, err := npm.CombinedOutput()
	require.NoError(t, err, "npm ci: %s", said)
	if err := os.Rename(tmp, done); err != nil {
		_, err = os.Stat(done) // another test was first
		require.NoError(t, err)
	}
	return done
}
