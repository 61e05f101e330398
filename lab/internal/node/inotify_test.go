package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A limit that was raised goes back to what it was; one that was high enough,
// or that somebody else changed meanwhile, is not touched.
func TestLimits(t *testing.T) {
	for name, test := range map[string]struct {
		was, meanwhile, raised, after string
	}{
		"low":                {was: "128\n", raised: "1024", after: "128"},
		"high":               {was: "8192\n", raised: "8192\n", after: "8192\n"},
		"changed by another": {was: "128\n", meanwhile: "4096", raised: "1024", after: "4096"},
	} {
		t.Run(name, func(t *testing.T) {
			limit, kept := filepath.Join(t.TempDir(), "limit"), filepath.Join(t.TempDir(), "kept")
			oldLimit, oldKept := inotifyFile, inotifyKept
			inotifyFile, inotifyKept = limit, kept
			t.Cleanup(func() { inotifyFile, inotifyKept = oldLimit, oldKept })
			require.NoError(t, os.WriteFile(limit, []byte(test.was), 0o600))

			changed, err := RaiseLimits()
			require.NoError(t, err)
			require.Equal(t, test.was != test.raised, changed)
			text, err := os.ReadFile(limit)
			require.NoError(t, err)
			require.Equal(t, test.raised, string(text))

			if test.meanwhile != "" {
				require.NoError(t, os.WriteFile(limit, []byte(test.meanwhile), 0o600))
			}
			require.NoError(t, restoreLimits())
			text, err = os.ReadFile(limit)
			require.NoError(t, err)
			require.Equal(t, test.after, string(text))
			require.NoFileExists(t, kept)
		})
	}
}
