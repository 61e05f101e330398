package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// What was pushed to a registry is what a worker pulls.
func TestFleetBundleInRegistry(t *testing.T) {
	t.Parallel()
	a := newApp("kplan", strings.NewReader(""), io.Discard, io.Discard)
	address := "oci://" + labtest.Registry(t) + "/fleets/" + strings.ToLower(t.Name())
	archive := []byte(strings.Repeat("an archive of files\n", 100_000))
	for range 2 { // the second time it is there
		b, err := a.push(t.Context(), address, archive)
		require.NoError(t, err)
		require.True(t, b.PlainHTTP)
		pulled, err := a.pull(t.Context(), b)
		require.NoError(t, err)
		require.Equal(t, archive, pulled)
		b.Digest = "sha256:" + strings.Repeat("0", 64)
		_, err = a.pull(t.Context(), b)
		require.ErrorContains(t, err, "getting the plan's files from "+address)
	}
}
