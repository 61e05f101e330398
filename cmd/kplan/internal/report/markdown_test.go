package report

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// TestMarkdownMeansWhatItSays reads reports as GitHub does: texts of the run are
// text, whatever they look like, and tables have the columns of their heads.
func TestMarkdownMeansWhatItSays(t *testing.T) {
	runs := oddRuns()
	maps.Copy(runs, recorded(t))
	ours := map[string]bool{"<details>": true, "<details><summary>Log</summary>": true, "<summary>": true, "</summary>": true, "</details>": true, "<sub>": true, "</sub>": true}
	for name, l := range runs {
		t.Run(name, func(t *testing.T) {
			source := write(t, Markdown, l, Meta{Version: name, PlanFile: hostile, Record: hostile})
			doc := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
			columns := 0
			require.NoError(t, ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
				if !entering {
					return ast.WalkContinue, nil
				}
				switch n := n.(type) {
				case *ast.RawHTML:
					require.True(t, ours[string(n.Segments.Value(source))], "%q is HTML", n.Segments.Value(source))
				case *ast.HTMLBlock:
					for l := range strings.Lines(string(n.Lines().Value(source))) {
						require.True(t, ours[strings.TrimSpace(l)], "%q is HTML", l)
					}
				case *ast.Link, *ast.Image:
					t.Errorf("there is a link: %q", n.(ast.Node).Text(source)) //nolint:staticcheck // it is for a message
				case *ast.AutoLink:
					require.Regexp(t, "^https?://", string(n.URL(source)))
				case *ast.Emphasis:
					if word := string(n.Text(source)); n.Level == 2 { //nolint:staticcheck // as above
						require.True(t, word == "Hint:" || word == "Stopped:" || strings.ContainsAny(word[:min(3, len(word))], "…✗?"), "%q is bold", word)
						return ast.WalkContinue, nil
					}
					t.Errorf("there is emphasis: %q", n.Text(source)) //nolint:staticcheck // as above
				case *ast.CodeSpan:
					require.Equal(t, ast.KindHeading, n.Parent().Kind(), "only names in headings are code")
				case *east.Strikethrough, *east.TaskCheckBox:
					t.Errorf("there is other markup: %s", n.Kind())
				case *ast.Heading:
					require.GreaterOrEqual(t, n.Level, 2)
				case *east.TableHeader:
					columns = n.ChildCount()
				case *east.TableRow:
					require.Equal(t, columns, n.ChildCount())
				}
				return ast.WalkContinue, nil
			}))
		})
	}
}
