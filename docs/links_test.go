// Package docs has no code: its test follows the links of the documentation.
package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	heading = regexp.MustCompile(`^(#{1,6}) +(.+?) *#*$`)
	// linked is what is linked or shown: [text](target), and src and srcset of HTML.
	linked   = regexp.MustCompile(`\]\(([^)\s]+)(?: "[^"]*")?\)|\bsrc(?:set)?="([^"]+)"`)
	codeSpan = regexp.MustCompile("``[^`]+``|`[^`]+`")
	external = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	mark     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)|[*]+`)
)

// A page is what links see of a file of Markdown.
type page struct {
	anchors map[string]bool
	links   []link
}

type link struct {
	target string
	line   int
}

// read reads a page. What stands in blocks of code is neither a heading nor a link.
func read(text string) page {
	p := page{anchors: map[string]bool{}}
	fence := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case fence != "" && strings.HasPrefix(trimmed, fence):
			fence = ""
			continue
		case fence != "":
			continue
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
			continue
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			p.anchor(slug(m[2]))
		}
		for _, m := range linked.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "`code`"), -1) {
			p.links = append(p.links, link{m[1] + m[2], n})
		}
	}
	return p
}

// anchor adds one; what is there already gets a number, as on GitHub.
func (p *page) anchor(name string) {
	unique := name
	for i := 1; p.anchors[unique]; i++ {
		unique = name + "-" + strconv.Itoa(i)
	}
	p.anchors[unique] = true
}

// slug makes the anchor of a heading as GitHub does; site/.vitepress/links.mjs has the same rule.
func slug(text string) string {
	text = mark.ReplaceAllString(text, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r), r == '_', r == '-':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(text))
}

// files are the pages that people read: the documentation, and what is beside code.
func files(t *testing.T) []string {
	t.Helper()
	all := []string{"../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../lab/README.md", "../bench/README.md", "../site/README.md"}
	require.NoError(t, filepath.WalkDir(".", func(name string, e os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			all = append(all, filepath.ToSlash(name))
		}
		return err
	}))
	return all
}

// Every link within the repository leads to a file that is there, and to a heading
// that it has.
func TestLinks(t *testing.T) {
	pages := map[string]page{}
	load := func(name string) page {
		if p, ok := pages[name]; ok {
			return p
		}
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		pages[name] = read(string(b))
		return pages[name]
	}
	for _, name := range files(t) {
		for _, l := range load(name).links {
			if external.MatchString(l.target) {
				continue
			}
			file, anchor, _ := strings.Cut(l.target, "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s:%d: %s: there is no such file", name, l.line, l.target)
				continue
			}
			if anchor != "" && strings.HasSuffix(target, ".md") {
				assert.True(t, load(target).anchors[anchor], "%s:%d: %s: there is no such heading", name, l.line, l.target)
			}
		}
	}
}

// The index of each part of the documentation leads to all of its pages.
func TestIndexes(t *testing.T) {
	for _, part := range []string{"tutorial", "how-to", "reference", "explanation"} {
		b, err := os.ReadFile(part + "/index.md")
		require.NoError(t, err)
		listed := map[string]bool{"index.md": true}
		for _, l := range read(string(b)).links {
			listed[l.target] = true
		}
		names, err := filepath.Glob(part + "/*.md")
		require.NoError(t, err)
		for _, name := range names {
			assert.True(t, listed[filepath.Base(name)], "%s/index.md does not list %s", part, filepath.Base(name))
		}
	}
}

func TestRead(t *testing.T) {
	got := read("# A `b` & c\n[x](y.md#z) and `[no](no.md)`\n```sh\n# no\n[no](no)\n```\n## A `b` & c\n<img src=\"p.svg\">\n")
	require.Equal(t, map[string]bool{"a-b--c": true, "a-b--c-1": true}, got.anchors)
	require.Equal(t, []link{{"y.md#z", 2}, {"p.svg", 8}}, got.links)
}

func TestSlug(t *testing.T) {
	for text, want := range map[string]string{
		"Unchanged objects":     "unchanged-objects",
		"`--report` of a *run*": "--report-of-a-run",
		"What's [this](x.md)?":  "whats-this",
		"snake_case":            "snake_case",
	} {
		require.Equal(t, want, slug(text))
	}
}
