package report

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
)

// save writes a page to a file that a browser can open.
func save(t testing.TB, page []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(file, page, 0o600))
	return file
}

// TestPageAtEveryWidth opens pages on phones and on wide screens, in both colour
// schemes. With -screenshots it opens all, and writes pictures to look at.
func TestPageAtEveryWidth(t *testing.T) {
	b := browse(t)
	runs := recorded(t)
	runs["hostile"] = oddRun(hostile)
	runs["tangled"] = tangledRun(30)
	runs["word"] = oddRun(strings.Repeat("x", 5000))
	widths := []int{360, 800, 1280, 1920}
	if *screenshots == "" {
		runs = map[string]*timeline.Timeline{"failure": runs["failure"], "race": runs["race"], "word": runs["word"]}
		widths = []int{360, 1280}
	}
	for name, l := range runs {
		file := save(t, write(t, HTML, l, meta))
		for _, width := range widths {
			for _, scheme := range []string{"light", "dark"} {
				b.size(width, 900)
				b.scheme(scheme)
				b.open(file)
				var wide int
				b.eval("document.documentElement.scrollWidth", &wide)
				require.LessOrEqual(t, wide, width, "%s needs no scrolling to the side at %d", name, width)
				b.shoot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
			}
		}
		b.print(true)
		b.size(800, 900)
		b.eval(`dispatchEvent(new Event("beforeprint"))`, nil)
		b.shoot(name + "-print")
		b.print(false)
	}
}

// TestPageWorks uses a page as its reader does.
func TestPageWorks(t *testing.T) {
	b := browse(t)
	b.size(1280, 900)
	file := save(t, write(t, HTML, recorded(t)["failure"], meta))
	b.open(file)
	shown := func() string {
		t.Helper()
		var names []string
		b.eval(`[...document.querySelectorAll(".step:not([hidden]) .title")].map(e => e.textContent)`, &names)
		return strings.Join(names, " ")
	}
	settle := "new Promise(done => setTimeout(done, 250))" // typing is waited out

	require.Equal(t, "web chart needs-chart stale evil", shown())
	b.eval(`document.querySelector("[data-state=failed].chip").click()`, nil)
	require.Equal(t, "chart stale evil", shown(), "a chip picks a state")
	b.key("/", "")
	for _, c := range "oci" {
		b.key(string(c), string(c))
	}
	b.eval(settle, nil)
	require.Equal(t, "chart", shown(), "/ and text filter further, by causes too")
	var found string
	b.eval(`document.getElementById("found").textContent`, &found)
	require.Equal(t, "1 of 5 steps", found)
	b.key("Escape", "")
	b.eval(`document.querySelector("[data-state=failed].chip").click()`, nil)
	require.Equal(t, "web chart needs-chart stale evil", shown())

	var open bool
	b.eval(`document.getElementById("s1").open`, &open)
	require.False(t, open)
	b.eval(`new Promise(done => {
		addEventListener("hashchange", () => done(document.getElementById("s1").open && document.activeElement === document.querySelector("#s1 summary")), {once: true});
		document.querySelector(".row[href='#s1']").click();
	})`, &open)
	require.True(t, open, "a link to a step opens it and takes the keyboard there")
	b.eval(`document.getElementById("close").click(); dispatchEvent(new Event("beforeprint")); [...document.querySelectorAll(".step[data-state=failed]")].every(s => s.open)`, &open)
	require.True(t, open, "what failed is open on paper")

	var background [3]string
	b.scheme("dark")
	for i := range background {
		b.eval(`getComputedStyle(document.body).backgroundColor`, &background[i])
		b.eval(`document.getElementById("theme").click()`, nil) // auto, light, dark
	}
	require.NotEqual(t, background[0], background[1], "the page's choice wins over the system's")
	require.Equal(t, background[0], background[2])

	// Nothing of the page is anywhere else.
	var requests int
	b.eval(`performance.getEntriesByType("resource").length`, &requests)
	require.Zero(t, requests)
}

// TestPageWithoutScript opens a page in a browser that runs no scripts.
func TestPageWithoutScript(t *testing.T) {
	b := browse(t)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.size(1280, 900)
	b.scheme("light")
	b.call("Page.navigate", map[string]any{"url": "file://" + save(t, write(t, HTML, recorded(t)["failure"], meta))}, nil)
	b.until("the page to load", func(a answer) bool { return a.Method == "Page.loadEventFired" })
	var tools []bool
	b.eval(`["q", "open", "theme"].map(id => document.getElementById(id).getClientRects().length > 0)`, &tools)
	require.Equal(t, []bool{false, false, false}, tools, "what would do nothing is not there")
	var height int
	b.eval(`document.querySelector("#s1 summary").click(); document.querySelector("#s1 .body").getClientRects().length`, &height)
	require.Positive(t, height, "steps open all the same")
	b.shoot("no-script")
}

// TestPageIsSafe checks that a page whose texts are hostile runs nothing of them.
func TestPageIsSafe(t *testing.T) {
	b := browse(t)
	b.size(1280, 900)
	b.call("Runtime.enable", nil, nil)
	b.open(save(t, write(t, HTML, oddRun(hostile), meta)))
	var texts []string
	b.eval(`[...document.querySelectorAll("script, img, iframe, [onerror], a[href^='javascript']")].map(e => e.outerHTML.slice(0, 80))`, &texts)
	require.Len(t, texts, 1, "only the page's own script: %v", texts)
	var works bool
	b.eval(`!document.documentElement.classList.contains("no-js")`, &works)
	require.True(t, works, "its hash is the one that the page allows")
}

// TestPageNeedsNothing checks that a page names nothing that a browser would fetch.
func TestPageNeedsNothing(t *testing.T) {
	for name, l := range recorded(t) {
		page := string(write(t, HTML, l, meta))
		require.NotRegexp(t, regexp.MustCompile(`(?i)<(link|img|iframe|object|embed|base)\b|@import|url\((?:[^#]|$)|\ssrc=`), page, name)
	}
}

// TestBigPage opens the page of a run of 2,000 steps.
func TestBigPage(t *testing.T) {
	const most = 2 * time.Second
	page := write(t, HTML, bigRun(2000), meta)
	require.Less(t, len(page), 8<<20)
	b := browse(t)
	b.size(1280, 900)
	file := save(t, page)
	took, work := b.open(file)
	t.Logf("%d steps, %.1f MB: drawn after %s, %s of them work", 2000, float64(len(page))/1e6, took.Round(time.Millisecond), work.Round(time.Millisecond))
	require.Less(t, work, most)
	b.shoot("big-1280-light")

	var ms float64
	b.eval(`(() => { const q = document.getElementById("q"), t = performance.now(); q.value = "tenant-0042"; q.dispatchEvent(new Event("input"));
		return new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(() => done(performance.now() - t - 120))), 120)); })()`, &ms)
	var shown int
	b.eval(`document.querySelectorAll(".step:not([hidden])").length`, &shown)
	require.Equal(t, 4, shown)
	t.Logf("filtered within %.0f ms", ms)
}

// BenchmarkHTML writes the page of a run of 2,000 steps.
func BenchmarkHTML(b *testing.B) {
	l := bigRun(2000)
	b.ReportAllocs()
	for b.Loop() {
		write(b, HTML, l, meta)
	}
}
