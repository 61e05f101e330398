package load_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/internal/usage"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// FuzzParse feeds Parse with damaged fleets. Whatever the bytes are, the answer is a sound
// fleet or diagnostics that are safe to print, and it comes soon.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(f, err)
		for _, x := range a.Files {
			if x.Name == "fleet.yaml" {
				f.Add(x.Data, "east-1", "ring", "0")
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, name, label, value string) {
		var got *load.Fleet
		var err error
		usage.Bound(t, time.Second, 64<<20, func() { got, err = load.Parse("f.yaml", src) })
		if err != nil {
			checkDiagnostics(t, src, err)
			return
		}
		require.Equal(t, plan.APIVersion, got.APIVersion)
		require.Equal(t, fleet.Kind, got.Kind)
		require.NotEmpty(t, got.Inventory)
		require.NotEmpty(t, got.Waves)
		c := fleet.Cluster{Name: name, Labels: map[string]string{label: value}}
		for i := range got.Inventory {
			if _, err := got.Takes(i, c); err != nil {
				checkDiagnostics(t, src, err)
			}
		}
		if i, err := got.Wave(c); err != nil {
			checkDiagnostics(t, src, err)
		} else {
			require.NotEmpty(t, got.Waves[i].Name)
		}
		if _, err := got.Vars(c); err != nil {
			checkDiagnostics(t, src, err)
		}
	})
}

// yamlBreak is what ends a line in YAML 1.1.
var yamlBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// checkDiagnostics wants positions that are in the file and text that is harmless on a
// terminal.
func checkDiagnostics(t *testing.T, src []byte, err error) {
	t.Helper()
	ds, ok := err.(document.Diagnostics) //nolint:errorlint // the contract is the type itself
	require.True(t, ok)
	require.NotEmpty(t, ds)
	lines := yamlBreak.Split(string(src), -1)
	for _, d := range ds {
		require.NotEmpty(t, d.Message)
		require.LessOrEqual(t, d.Line, len(lines))
		if d.Line > 0 {
			require.LessOrEqual(t, d.Col, len(lines[d.Line-1])+2)
		}
		require.LessOrEqual(t, strings.Count(d.Excerpt, "\n"), 1)
	}
	for _, r := range err.Error() {
		require.False(t, r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)), "control character %U", r)
	}
}
