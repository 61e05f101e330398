package changes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/changes"
)

// Hunks are those of diff -u.
func TestLines(t *testing.T) {
	t.Parallel()
	text := func(s string) string { return strings.ReplaceAll(s, " ", "\n") + "\n" }
	tests := []struct {
		before, after string
		context       int
		want          []string
	}{
		{text("a b c"), text("a b c"), 3, nil},
		{"", text("a b"), 3, []string{"@@ -0,0 +1,2 @@", "+a", "+b"}},
		{text("a b"), "", 3, []string{"@@ -1,2 +0,0 @@", "-a", "-b"}},
		{text("a b c d e"), text("a b x d e"), 1, []string{"@@ -2,3 +2,3 @@", " b", "-c", "+x", " d"}},
		{text("a b c d e f"), text("x b c d e y"), 1, []string{"@@ -1,2 +1,2 @@", "-a", "+x", " b", "@@ -5,2 +5,2 @@", " e", "-f", "+y"}},
		{text("a b c"), text("x b y"), 1, []string{"@@ -1,3 +1,3 @@", "-a", "+x", " b", "-c", "+y"}},
		{text("a b c"), text("a c"), 0, []string{"@@ -2,1 +1,0 @@", "-b"}},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, changes.Lines(tt.before, tt.after, tt.context))
	}
}
