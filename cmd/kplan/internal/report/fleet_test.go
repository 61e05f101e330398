package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// fleetEvents reads a recorded run of a fleet.
func fleetEvents(t testing.TB, name string) []fleet.Event {
	t.Helper()
	b, err := os.ReadFile("../fleetview/testdata/events/" + name + ".jsonl")
	require.NoError(t, err)
	var all []fleet.Event
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b)+1)
	for lines.Scan() {
		var e fleet.Event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		all = append(all, e)
	}
	return all
}

// failed are the events of a recorded run up to the end of its first round.
func failed(t testing.TB) []fleet.Event {
	t.Helper()
	all := fleetEvents(t, "resumed")
	for i, e := range all {
		if e.Type == fleet.TypeDone {
			return all[:i+1]
		}
	}
	return all
}

// own are the runs of some clusters.
func own(t testing.TB) func(string) ([]runner.Event, error) {
	t.Helper()
	race, failure := readEvents(t, "../ui/testdata/events/race.jsonl"), readEvents(t, "../ui/testdata/events/failure.jsonl")
	return func(cluster string) ([]runner.Event, error) {
		switch cluster {
		case "prod/east-01", "prod/north-01":
			return race, nil
		case "prod/east-04":
			return failure, nil
		}
		return nil, fs.ErrNotExist
	}
}

func fleetOf(t testing.TB, events []fleet.Event) *Fleet {
	t.Helper()
	x := &fleet.Execution{}
	for _, e := range events {
		x.Apply(e)
	}
	return &Fleet{Execution: x, Meta: meta, Events: own(t)}
}

func writeFleet(t testing.TB, k Kind, f *Fleet) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteFleet(&b, k, f))
	return b.Bytes()
}

func TestFleetGoldens(t *testing.T) {
	for name, events := range map[string][]fleet.Event{"good": fleetEvents(t, "good"), "failed": failed(t), "aborted": fleetEvents(t, "aborted"), "middle": failed(t)[:90]} {
		for _, k := range FleetKinds {
			golden(t, filepath.Join("fleet", name+k.Ext()), string(writeFleet(t, k, fleetOf(t, events))))
		}
	}
}

// A rollout that came to the same has the same report on whatever engine, but for what is
// named run.
func TestFleetJSONIsTheSame(t *testing.T) {
	a, b := failed(t), failed(t)
	for i := range b {
		b[i].Time = b[i].Time.Add(time.Hour + time.Duration(i)*time.Millisecond)
		b[i].Engine = strings.ReplaceAll(b[i].Engine, "local", "kubernetes")
		b[i].Run, b[i].By = strings.ReplaceAll(b[i].Run, "5f0c", "77aa"), ""
		if b[i].Attempt > 0 {
			b[i].Attempt++
		}
		if r := b[i].Result; r != nil {
			later := *r
			later.Started, later.Ended, later.HeldSeconds, later.Run = r.Started.Add(time.Minute), r.Ended.Add(time.Hour), 99, "other"
			b[i].Result = &later
		}
	}
	var docs [2]any
	for i, events := range [][]fleet.Event{a, b} {
		require.NoError(t, json.Unmarshal(writeFleet(t, JSON, fleetOf(t, events)), &docs[i]))
	}
	require.NotEqual(t, docs[0], docs[1])
	withoutRun(docs[0])
	withoutRun(docs[1])
	require.Equal(t, docs[0], docs[1])
}

// withoutRun takes out what tells of one run alone.
func withoutRun(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "run")
		for _, w := range v {
			withoutRun(w)
		}
	case []any:
		for _, w := range v {
			withoutRun(w)
		}
	}
}

// A CI system counts clusters that failed, also those of which no step is known.
func TestFleetJUnitCounts(t *testing.T) {
	var doc struct {
		Suites []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Skipped  int    `xml:"skipped,attr"`
			Cases    []struct {
				Class   string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	f := fleetOf(t, failed(t))
	require.NoError(t, xml.Unmarshal(writeFleet(t, JUnit, f), &doc))
	require.Len(t, doc.Suites, 60)
	bad := 0
	for i, s := range doc.Suites {
		c := f.Clusters[i]
		require.Equal(t, c.Name, s.Name)
		require.Len(t, s.Cases, s.Tests)
		require.Equal(t, c.State == fleet.Failed, s.Failures > 0, c.Name)
		require.Equal(t, c.State == fleet.NotStarted, s.Skipped > 0 && s.Failures == 0, c.Name)
		failures, skipped := 0, 0
		for _, k := range s.Cases {
			require.True(t, strings.HasPrefix(k.Class, c.Name+"."), k.Class)
			if k.Failure != nil {
				failures++
			}
			if k.Skipped != nil {
				skipped++
			}
		}
		require.Equal(t, []int{s.Failures, s.Skipped}, []int{failures, skipped})
		if failures > 0 {
			bad++
		}
	}
	require.Equal(t, f.Counts()[fleet.Failed], bad)
}

func TestFleetJUnitIsValid(t *testing.T) {
	files, err := filepath.Glob("testdata/fleet/*.xml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	said, err := validate(t, files...)
	require.NoError(t, err, said)
}

// A folder has the page of the fleet, and one of each cluster of which something is known.
func TestFleetFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "report")
	file, err := ParseFleetFile("html=" + dir)
	require.NoError(t, err)
	require.Equal(t, "--report html="+filepath.Join(dir, "index.html"), file.String())
	one, err := ParseFleetFile("html=" + dir + ".html")
	require.NoError(t, err)
	files := &FleetFiles{Files: []File{file, one}, Meta: meta, Events: own(t)}
	require.NoError(t, files.Close(), "nothing is known of the run")
	for _, e := range failed(t) {
		files.Observe(e)
	}
	require.NoError(t, files.Close())
	page, err := os.ReadFile(file.Path)
	require.NoError(t, err)
	for _, name := range []string{"prod-east-01.html", "prod-north-01.html", "prod-east-04.html"} {
		require.Contains(t, string(page), `href="clusters/`+name+`"`)
		own, err := os.ReadFile(filepath.Join(dir, "clusters", name))
		require.NoError(t, err)
		require.Contains(t, string(own), `of <a href="../index.html">fleet edge</a>`)
	}
	alone, err := os.ReadFile(one.Path)
	require.NoError(t, err)
	require.NotContains(t, string(alone), "clusters/")

	for flag, want := range map[string]string{
		"otlp=x": `there is no report kind "otlp" of a fleet, only html, junit, markdown, json`, "html": "names no file", "json=" + dir: "that is a folder",
		"junit=/nowhere/x.xml": "there is no folder /nowhere",
	} {
		_, err := ParseFleetFile(flag)
		require.ErrorContains(t, err, want)
	}
}

func TestPageName(t *testing.T) {
	taken := map[string]bool{}
	for _, c := range []struct{ name, want string }{
		{"prod/east-1", "prod-east-1.html"}, {"prod-east/1", "prod-east-1~2.html"}, {"Prod/East-1", "Prod-East-1~3.html"}, {"../../x", "..-..-x.html"}, {"ä", "-.html"},
	} {
		require.Equal(t, c.want, pageName(c.name, taken))
	}
}

// What clusters say is no markup, and no summary is larger than it may be.
func TestFleetHostile(t *testing.T) {
	x := &fleet.Execution{}
	x.Apply(fleet.Event{Type: fleet.TypeFleet, Fleet: hostile, Plan: hostile, Run: hostile, Waves: []fleet.WaveInfo{{Name: hostile, Clusters: 1}}, Clusters: []fleet.ClusterInfo{{Name: hostile, Wave: hostile, Server: hostile, Source: hostile}}})
	x.Apply(fleet.Event{Type: fleet.TypeCluster, Cluster: hostile, State: fleet.Failed, Result: &fleet.Result{State: fleet.Failed, Error: hostile, Hint: hostile, Cause: &fleet.Cause{Class: fleet.StepFailed, Step: hostile, Text: hostile}}})
	x.Apply(fleet.Event{Type: fleet.TypeDone, RunState: fleet.Failed, Error: hostile, Hint: hostile})
	f := &Fleet{Execution: x, Meta: Meta{Version: hostile}}
	for _, k := range FleetKinds {
		out := string(writeFleet(t, k, f))
		if k == HTML || k == JUnit {
			require.NotContains(t, out, "<script", k)
		}
		require.NotContains(t, out, "\x1b", k)
	}
	require.NoError(t, xml.Unmarshal(writeFleet(t, JUnit, f), new(struct{})))
	many := fleetOf(t, failed(t))
	require.LessOrEqual(t, len(FleetMarkdown(many, 4<<10)), 4<<10)
}

func TestFleetSummary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary.md")
	var out, warnings bytes.Buffer
	r := &FleetSummarized{Renderer: fleetview.New(ui.GitHub, &out, fleetview.Options{}), File: file, Warnings: &warnings, Version: "v1.2.3"}
	for _, e := range failed(t) {
		r.Observe(e)
	}
	require.NoError(t, r.Close())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(b), "## ✗ Fleet `edge`: failed")
	require.Empty(t, warnings.String())
	require.Contains(t, out.String(), "::error title=")
}

// The pages open in a browser, at every width and in both colour schemes, and lead to each
// other.
func TestFleetPage(t *testing.T) {
	b := browse(t)
	dir := filepath.Join(t.TempDir(), "report")
	file, err := ParseFleetFile("html=" + dir)
	require.NoError(t, err)
	for name, events := range map[string][]fleet.Event{"good": fleetEvents(t, "good"), "failed": failed(t), "middle": failed(t)[:90]} {
		files := &FleetFiles{Files: []File{file}, Meta: meta, Events: own(t)}
		for _, e := range events {
			files.Observe(e)
		}
		require.NoError(t, files.Close())
		for _, width := range []int{360, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				b.size(width, 900)
				b.scheme(scheme)
				b.open(file.Path)
				var wide, cells int
				b.eval("document.documentElement.scrollWidth", &wide)
				require.LessOrEqual(t, wide, width, "%s needs no scrolling to the side at %d", name, width)
				b.eval(`document.querySelectorAll(".cells a").length`, &cells)
				require.Equal(t, 60, cells)
				b.shoot("fleet-" + name + "-" + map[int]string{360: "360", 1280: "1280"}[width] + "-" + scheme)
			}
		}
	}
	var href string
	b.eval(`document.querySelector("td a").href`, &href)
	to, err := url.Parse(href)
	require.NoError(t, err)
	b.open(to.Path)
	var title string
	b.eval("document.title", &title)
	require.Equal(t, "prod/east-01: race: succeeded", title)
	b.eval(`document.querySelector(".facts a").href`, &href)
	require.Equal(t, "file://"+file.Path, href)
}

// A page of a thousand clusters opens at once.
func TestFleetBigPage(t *testing.T) {
	x := &fleet.Execution{}
	first := fleet.Event{Type: fleet.TypeFleet, Fleet: "edge", Plan: "p", Waves: []fleet.WaveInfo{{Name: "all", Parallel: 50, Clusters: 1000}}, Time: time.Unix(1700000000, 0)}
	for i := range 1000 {
		first.Clusters = append(first.Clusters, fleet.ClusterInfo{Name: "prod/c-" + strings.Repeat("x", i%30) + time.Duration(i).String(), Wave: "all"})
	}
	x.Apply(first)
	for i, c := range first.Clusters {
		r := fleet.Result{State: fleet.Succeeded}
		if i%20 == 0 {
			r = fleet.Result{State: fleet.Failed, Error: "no such chart", Cause: &fleet.Cause{Class: fleet.StepFailed, Step: "operator", Text: "no such chart"}}
		}
		x.Apply(fleet.Event{Type: fleet.TypeCluster, Cluster: c.Name, State: r.State, Result: &r, Time: first.Time.Add(time.Minute)})
	}
	x.Apply(fleet.Event{Type: fleet.TypeDone, RunState: fleet.Failed, Time: first.Time.Add(time.Hour)})
	page := writeFleet(t, HTML, &Fleet{Execution: x, Meta: meta})
	require.Less(t, len(page), 1<<20)
	b := browse(t)
	b.size(1280, 900)
	_, work := b.open(save(t, page))
	require.Less(t, work, 2*time.Second)
}

// golden compares got with a file under testdata, or writes that.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
