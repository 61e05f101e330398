package main

import (
	"os"
	"path/filepath"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The bill of this test's own binary has the modules that it links, and is the same
// when it is written again.
func TestBill(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	first, again := filepath.Join(t.TempDir(), "a.json"), filepath.Join(t.TempDir(), "b.json")
	require.NoError(t, write(binary, first, "v1.2.3"))
	require.NoError(t, write(binary, again, "v1.2.3"))
	a, err := os.ReadFile(first)
	require.NoError(t, err)
	b, err := os.ReadFile(again)
	require.NoError(t, err)
	require.Equal(t, a, b)

	f, err := os.Open(first)
	require.NoError(t, err)
	defer f.Close()
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom))
	assert.Equal(t, "v1.2.3", bom.Metadata.Component.Version)
	assert.Len(t, (*bom.Metadata.Component.Hashes)[0].Value, 64)
	versions := map[string]string{}
	for _, c := range *bom.Components {
		versions[c.Name] = c.Version
	}
	assert.NotEmpty(t, versions["std"])
	assert.NotEmpty(t, versions["github.com/CycloneDX/cyclonedx-go"])
	assert.NotContains(t, versions, "github.com/goreleaser/goreleaser/v2", "it is a tool of the module, and not linked in")
}

func TestNotABinary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	require.Error(t, write(file, file+".json", ""))
	require.NoFileExists(t, file+".json")
}
