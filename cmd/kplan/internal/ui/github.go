package ui

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

const (
	// mostLines is how many lines a group has: the runner's log is slow to open
	// beyond some thousands.
	mostLines = 2000
	// longHold is from when on it is worth a notice that webhooks held a step up.
	longHold = 30 * time.Second
)

// gitHub is plain for the log of GitHub Actions. Steps run side by side and
// groups cannot: while a step runs only news of its state are written, and all
// that was said of it in one group when it has ended. At the end come
// annotations at the plan's lines.
type gitHub struct {
	*plain
	groups map[string]*group
}

// group is what was said of a step.
type group struct {
	lines bytes.Buffer
	count int
	title string // the first line of how the step ended; "" before
}

func newGitHub(out io.Writer, o Options) *gitHub {
	o.Actions = true
	g := &gitHub{plain: newPlain(out, o), groups: map[string]*group{}}
	g.put = g.sort
	return g
}

// sort puts a line into its step's group, and writes it at once when it is news.
func (g *gitHub) sort(l line, text []byte) {
	s := g.x.Step(l.step)
	if s == nil || s.Attempt == 0 && s.State.Terminal() { // it never ran
		g.Buf.Write(text)
		return
	}
	to := g.groups[l.step]
	if to == nil {
		to = &group{}
		g.groups[l.step] = to
	}
	if to.count++; to.count <= mostLines {
		to.lines.Write(text)
	}
	switch {
	case l.news && s.State.Terminal():
		title, _, _ := bytes.Cut(text, []byte("\n"))
		to.title = string(title)
	case l.news:
		g.Buf.Write(text)
	}
}

// draw folds e; when that ended a step, its group is written.
func (g *gitHub) Draw(e runner.Event) {
	g.plain.Draw(e)
	switch s := g.x.Step(e.Step); {
	case s == nil || !s.State.Terminal():
	case s.Attempt == 0:
		delete(g.groups, e.Step)
	default:
		g.write(e.Step)
	}
}

// write writes the group of a step, once.
func (g *gitHub) write(step string) {
	from := g.groups[step]
	if from == nil {
		return
	}
	delete(g.groups, step)
	fmt.Fprintln(&g.Buf, actions.Group(cmp.Or(from.title, step)))
	g.Buf.Write(from.lines.Bytes())
	if n := from.count - mostLines; n > 0 {
		fmt.Fprintf(&g.Buf, "… %s left out\n", words.Count(n, "line"))
	}
	fmt.Fprintln(&g.Buf, actions.EndGroup)
}

func (g *gitHub) Close() error {
	for _, s := range g.x.Steps() { // those that an aborted run left at work
		g.write(s.Name)
	}
	g.end()
	g.annotate()
	return g.Sink.Close()
}

// annotate writes annotations: why steps failed, which ones took more than one
// attempt, and which ones webhooks held up for long.
func (g *gitHub) annotate() {
	if g.x.State() == "" {
		return
	}
	all := map[actions.Level][]actions.Annotation{}
	add := func(level actions.Level, s *runner.Step, title, message string) {
		a := actions.Annotation{Level: level, Title: title, Message: words.Clean(message)}
		if s != nil && s.File != "" {
			a.File, a.Line = actions.Place(g.Root, s.File), s.Line
		}
		all[level] = append(all[level], a)
	}
	for _, e := range g.x.Findings() {
		level := map[string]actions.Level{"error": actions.Error, "warning": actions.Warning, "note": actions.Notice}[e.Finding.Severity]
		if g.x.State() == runner.StateSucceeded && level == actions.Error {
			level = actions.Warning // it came otherwise
		}
		a := actions.Annotation{Level: level, Title: "preflight: " + e.Finding.Code, Message: words.Clean(words.Join("\nhint: ", e.Message, e.Hint))}
		if e.Finding.File != "" {
			a.File, a.Line = actions.Place(g.Root, e.Finding.File), e.Finding.Line
		}
		all[level] = append(all[level], a)
	}
	for _, s := range g.x.Steps() {
		title := fmt.Sprintf("step %q %s", s.Name, s.State)
		switch {
		case s.State == runner.StateFailed:
			add(actions.Error, s, title, words.Join("\nhint: ", s.Error, s.Hint))
		case s.State.Good() && s.Attempt > 1:
			add(actions.Warning, s, title, fmt.Sprintf("it took %d attempts of %d", s.Attempt, s.Attempts))
		}
		if held := s.HoldTime(g.x.Last()); held >= longHold && s.State.Good() {
			add(actions.Notice, s, title, note(&g.x, s))
		}
	}
	if g.x.Err() != "" && g.x.State() != runner.StateSucceeded {
		add(actions.Error, nil, fmt.Sprintf("plan %s %s", g.x.Plan(), g.x.State()), g.x.Err())
	}
	for _, level := range []actions.Level{actions.Error, actions.Warning, actions.Notice} {
		list := all[level]
		if n := len(list) - actions.MaxAnnotations; n > 0 { // the last one says how many there are more
			var rest []string
			for _, a := range list[actions.MaxAnnotations-1:] {
				rest = append(rest, a.Title)
			}
			list[actions.MaxAnnotations-1] = actions.Annotation{Level: level, Title: fmt.Sprintf("%d more", n+1), Message: strings.Join(rest, "\n")}
			list = list[:actions.MaxAnnotations]
		}
		for _, a := range list {
			fmt.Fprintln(&g.Buf, a)
		}
	}
}
