// Package lint finds what is right in a fleet file by its grammar and lets one fault reach
// more clusters than it must: no first wave that shows it, limits that stop nothing.
//
// It looks at the file only, and finds no clusters. What a plan does on one cluster is a
// matter of package plan/lint.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
)

// File is a fleet file, and knows where its values stand.
type File interface {
	Place(fields ...any) document.Place
}

// Rules are all rules, by ID.
var Rules = []finding.Rule{
	{ID: "all-at-once", Severity: finding.Warning, Summary: "all clusters are in one wave"},
	{ID: "canary-may-fail", Severity: finding.Warning, Summary: "the first of several waves may fail, and the next one begins all the same"},
	{ID: "never-stops", Severity: finding.Warning, Summary: "every cluster of a wave may fail"},
	{ID: "no-budget", Severity: finding.Note, Summary: "clusters may fail, and nobody counts how many do so of one cause"},
	{ID: "no-time-to-look", Severity: finding.Note, Summary: "the next wave begins at once when the first one is done"},
	{ID: "unpinned-image", Severity: finding.Warning, Summary: "the image of the workers may be another one tomorrow"},
}

// Run looks at a fleet by all rules but those that are disabled, by ID. The findings are in
// the order of the file's lines.
func Run(f *fleet.Fleet, file File, disabled ...string) []finding.Finding {
	l := &linter{Fleet: f, file: file}
	l.waves()
	l.budget()
	l.image()
	l.found = slices.DeleteFunc(l.found, func(x finding.Finding) bool { return slices.Contains(disabled, x.Rule) })
	slices.SortStableFunc(l.found, func(a, b finding.Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return l.found
}

// linter collects the findings of one fleet.
type linter struct {
	*fleet.Fleet
	file  File
	found []finding.Finding
}

func (l *linter) add(rule, hint, message string, fields ...any) {
	i := slices.IndexFunc(Rules, func(r finding.Rule) bool { return r.ID == rule })
	at := l.file.Place(fields...)
	l.found = append(l.found, finding.Finding{
		Pos: at.Pos, Path: at.Path, Excerpt: at.Excerpt, Severity: Rules[i].Severity, Rule: rule, Message: message, Hint: hint,
	})
}

// waves looks whether a fault is seen before it is everywhere.
func (l *linter) waves() {
	if len(l.Waves) == 1 && cmp.Or(l.Waves[0].Parallel, fleet.DefaultParallel) > 1 {
		l.add("all-at-once", "put some that may show a fault into a wave before: {name: canary, select: …, parallel: 1}",
			"all clusters are in one wave, several at once: a fault is on many before anybody sees it", "waves", 0)
	}
	for i, w := range l.Waves {
		if w.MaxFailures != nil && w.MaxFailures.IsShare && w.MaxFailures.Percent == 100 {
			l.add("never-stops", "allow as many failures as you would look into: a number, or a share such as 2%",
				fmt.Sprintf("all clusters of the wave %s may fail: nothing stops the run", w.Name), "waves", i, "max_failures")
		}
	}
	if len(l.Waves) < 2 {
		return
	}
	first := l.Waves[0]
	if first.MaxFailures != nil && *first.MaxFailures != (fleet.Limit{}) && *first.MaxFailures != (fleet.Limit{IsShare: true}) {
		l.add("canary-may-fail", "leave max_failures out: then one failure stops the run",
			fmt.Sprintf("clusters of the first wave, %s, may fail, and the next wave begins all the same", first.Name), "waves", 0, "max_failures")
	}
	if first.Soak == nil && !l.Waves[1].Approve {
		l.add("no-time-to-look", "give the wave a soak time, or the next one approve: true",
			fmt.Sprintf("the wave %s begins at once when %s is done: what goes wrong a minute later is everywhere by then", l.Waves[1].Name, first.Name), "waves", 0)
	}
}

// budget looks whether failures of one cause are counted.
func (l *linter) budget() {
	if l.Budget.SameCause != nil {
		return
	}
	for i, w := range l.Waves {
		if w.MaxFailures != nil && (w.MaxFailures.Count > 1 || w.MaxFailures.Percent > 0) {
			l.add("no-budget", "add budget: {same_cause: 3}", "several clusters may fail, and be it all of one cause", "waves", i, "max_failures")
			return
		}
	}
}

// image looks whether the image of workers is always the same.
func (l *linter) image() {
	k := l.Engine.Kubernetes
	if k == nil || k.Image == "" || strings.Contains(k.Image, "@") {
		return
	}
	_, tag, tagged := strings.Cut(k.Image[strings.LastIndexByte(k.Image, '/')+1:], ":")
	if !tagged || tag == "latest" {
		l.add("unpinned-image", "name a version or a digest, or leave image out: then it is that of this kplan",
			"the image has no version: a worker that is begun anew may be another kplan than the others", "engine", "kubernetes", "image")
	}
}
