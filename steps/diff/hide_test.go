package diff

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a sensitive variable was before is known to nobody; it is shown no more than
// what it is.
func TestHide(t *testing.T) {
	hide := func(text string) string { return strings.ReplaceAll(text, "newpass", "(hidden)") }
	s := Step{
		Release: &Release{Values: []Field{{Path: "auth.password", Before: "oldpass", After: "newpass"}, {Path: "size", Before: 1, After: 2}}},
		Objects: []Object{
			{
				Fields: []Field{{Path: "data.url", Before: "db://oldpass@x", After: "db://newpass@x"}},
				Before: "data:\n  size: 1\n  url: db://oldpass@x\n", After: "data:\n  size: 2\n  url: db://newpass@x\n",
			},
			{Before: "args:\n- oldpass\n", After: "args:\n- newpass\n"},
			{After: "data:\n  url: newpass\n"},
		},
	}

	s.Hide(hide)

	require.Equal(t, []Field{{Path: "auth.password", Before: hidden, After: "newpass"}, {Path: "size", Before: 1, After: 2}}, s.Release.Values)
	require.Equal(t, hidden, s.Objects[0].Fields[0].Before)
	require.Equal(t, "data:\n  size: 1\n  url: (sensitive)\n", s.Objects[0].Before)
	require.Equal(t, s.Objects[1].After, s.Objects[1].Before)
	require.Empty(t, s.Objects[2].Before)
}
