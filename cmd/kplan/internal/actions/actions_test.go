package actions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
)

func TestAnnotation(t *testing.T) {
	for _, tt := range []struct {
		annotation actions.Annotation
		want       string
	}{
		{actions.Annotation{Message: "hello"}, "::notice::hello"},
		{
			actions.Annotation{Level: actions.Error, File: "a,b:c.yaml", Line: 3, Col: 5, Title: "step x: failed", Message: "100%\nhint: a::b"},
			"::error file=a%2Cb%3Ac.yaml,line=3,col=5,title=step x%3A failed::100%25%0Ahint: a::b",
		},
		{actions.Annotation{Level: actions.Warning, File: "p.yaml", Line: 7, Message: "m"}, "::warning file=p.yaml,line=7::m"},
		{actions.Annotation{Level: actions.Warning, File: "p.yaml", Col: 7, Message: "m"}, "::warning file=p.yaml::m"},
	} {
		require.Equal(t, tt.want, tt.annotation.String())
	}
	long := actions.Annotation{Level: actions.Error, Message: strings.Repeat("ä", actions.MaxMessage+1)}.String()
	require.Equal(t, "::error::"+strings.Repeat("ä", actions.MaxMessage-1)+"…", long)
}

// command tells whether the runner takes a line for a command, as its
// ActionCommand.TryParseV2 and TryParse look for one.
func command(line string) bool {
	return strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[")
}

// Nothing that a cluster or a chart says is a command.
func TestInert(t *testing.T) {
	for text, want := range map[string]string{
		"nothing":                 "nothing",
		"a::b":                    "a::b",
		"::error::boom":           ": :error::boom",
		" \t\u00a0::add-mask::x":  " \t\u00a0: :add-mask::x",
		"a\n  ::group::b\nc":      "a\n  : :group::b\nc",
		"x ##[error]boom":         "x ## [error]boom",
		"###[[##[add-mask]secret": "### [[## [add-mask]secret",
		":::error::":              ": ::error::",
		"::":                      ": :",
		"::stop-commands::##[x]":  ": :stop-commands::## [x]",
	} {
		got := actions.Inert(text)
		require.Equal(t, want, got)
		for line := range strings.Lines(got) {
			require.False(t, command(line), "%q", line)
		}
		require.Equal(t, got, actions.Inert(got), "it is done once")
	}
}

func TestPlace(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "deploy"), 0o755))
	t.Chdir(filepath.Join(root, "deploy"))
	for file, want := range map[string]string{
		"plan.yaml":                        "deploy/plan.yaml",
		"../plan.yaml":                     "plan.yaml",
		"../../plan.yaml":                  "../../plan.yaml",
		filepath.Join(root, "a", "p.yaml"): "a/p.yaml",
	} {
		require.Equal(t, want, actions.Place(root, file))
	}
	require.Equal(t, "plan.yaml", actions.Place("", "plan.yaml"))
}
