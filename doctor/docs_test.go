package doctor_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/doctor"
)

// docs/reference/doctor.md has the checks as they are, and names no others.
func TestDocs(t *testing.T) {
	const file, mark = "../docs/reference/doctor.md", "<!-- checks: written by go test ./doctor -update -->\n"
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	head, _, ok := strings.Cut(string(b), mark)
	require.True(t, ok)
	var want strings.Builder
	var ids []string
	for _, c := range doctor.Checks() {
		fmt.Fprintf(&want, "\n### %s\n*%s:* %s\n\n%s\n", c.ID, c.Severity, c.Summary, c.Explanation)
		ids = append(ids, c.ID)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(head+mark+want.String()), 0o600))
		return
	}
	require.Equal(t, head+mark+want.String(), string(b))
	for _, named := range regexp.MustCompile(`(?m)^\|.*\| (.*) \|$`).FindAllStringSubmatch(head, -1) {
		for _, id := range regexp.MustCompile("`([a-z]+(?:-[a-z]+)+)`").FindAllStringSubmatch(named[1], -1) {
			require.True(t, slices.Contains(ids, id[1]), "the page names the check %s", id[1])
		}
	}
}
