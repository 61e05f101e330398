package explain

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each rule has an id of its own, a row in docs/reference/explain.md, and an error that it explains
// in testdata/explanations.golden.
func TestRules(t *testing.T) {
	docs, err := os.ReadFile("../../docs/reference/explain.md")
	require.NoError(t, err)
	golden, err := os.ReadFile("testdata/explanations.golden")
	require.NoError(t, err)
	all := slices.Concat(early, late, []rule{denial, serverStarts, serverLate})
	seen := map[string]bool{}
	for _, r := range all {
		require.False(t, seen[r.id], "two rules are %s", r.id)
		seen[r.id] = true
		require.Contains(t, Classes, r.class, r.id)
		require.Contains(t, string(docs), "| `"+r.id+"` | "+string(r.class)+" |", "docs/reference/explain.md has no row of it")
		require.Contains(t, string(golden), string(r.class)+" "+r.id+": ")
		require.NotEmpty(t, r.causes, r.id)
		require.NotEmpty(t, r.next, r.id)
		for _, text := range r.has {
			require.Equal(t, strings.ToLower(text), text, r.id)
		}
	}
	for _, c := range append(calls, otherCall) {
		require.Contains(t, string(docs), "| `webhook-"+c.id+"` |", "docs/reference/explain.md has no row of it")
		require.Contains(t, string(golden), " webhook-"+c.id+": ")
	}
}
