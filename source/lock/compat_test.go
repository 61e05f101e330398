package lock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/source/lock"
)

// TestCompatLocks reads the lock files that each released version wrote; see
// testdata/compat/README.md.
func TestCompatLocks(t *testing.T) {
	files, err := filepath.Glob("../../testdata/compat/v*/locks/kplan.lock")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = lock.Parse(file, text, nil)
		require.NoError(t, err)
	}
}
