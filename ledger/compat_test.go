package ledger

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompatRecords reads the records that each released version kept in clusters; see
// testdata/compat/README.md. Clusters have them packed.
func TestCompatRecords(t *testing.T) {
	files, err := filepath.Glob("../testdata/compat/v*/records/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err = z.Write(text)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		r, err := unpack(b.Bytes())
		require.NoError(t, err, file)
		require.Equal(t, "20261122-161030-ab12cd", r.Run)
		require.NotNil(t, r.Step("settings").Done, "a run can be resumed after it")
	}
}
