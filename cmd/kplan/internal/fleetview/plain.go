package fleetview

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

const (
	// widest is how wide the column of names may get, and word how wide that of words is.
	widest = 32
	word   = 9
	// begins is the word of the first line.
	begins = "fleet"
	// tellEach is how many clusters that fail of one cause are told of one by one; of more
	// the status lines say how many.
	tellEach = 5
)

// plain writes lines for people: where waves begin and end, failures at once, and else how
// far the fleet is from time to time.
//
//	02:00:12  prod/east-1  failed     after 12s: step "chart": no such chart
type plain struct {
	pump.Sink
	Options
	x      fleet.Execution
	width  int // of the column of names
	failed map[fleet.Cause]*failing
	holds  map[fleet.Hold]*waiting // by webhook and Service
	status string                  // the last status line
	at     time.Time               // when that was
	last   time.Time               // when the last line was
	// wave is called with a wave that is over, before its line is written.
	wave func(*fleet.WaveStatus)
}

// failing are the clusters that failed of one cause.
type failing struct {
	first string // the name of the first one
	n     int
	told  int // how many there were when it was last told
}

func newPlain(out io.Writer, o Options) *plain {
	return &plain{
		Sink: pump.Sink{Out: out}, Options: o,
		failed: map[fleet.Cause]*failing{}, holds: map[fleet.Hold]*waiting{}, wave: func(*fleet.WaveStatus) {},
	}
}

// Close implements pump.Drawer.
func (p *plain) Close() error {
	p.end()
	return p.Sink.Close()
}

// end draws the summary, if the round has ended.
func (p *plain) end() {
	if p.x.State != "" && p.x.State != fleet.Running {
		summarize(&p.Buf, &p.x, p.Options)
	}
}

// Draw implements pump.Drawer: it folds e and writes the line that it deserves, if any.
func (p *plain) Draw(e fleet.Event) {
	before, active := p.x.Control, false
	if c := p.x.Cluster(e.Cluster); c != nil {
		active = c.State.Active()
	}
	p.x.Apply(e)
	switch e.Type {
	case fleet.TypeFleet:
		p.begin(e)
	case fleet.TypeResume:
		clear(p.failed)
		clear(p.holds)
		n := p.x.Counts()
		p.line(e.Time, "", "resume", strong, fmt.Sprintf("round %d%s: %d of %s to do",
			p.x.Round, words.Prefixed(" by ", e.By), n[fleet.Pending], words.Count(len(p.x.Clusters), "cluster")))
	case fleet.TypeWave:
		if w := p.x.Wave(e.Wave); w != nil {
			p.waveState(e, w)
		}
	case fleet.TypeCluster:
		if c := p.x.Cluster(e.Cluster); c != nil {
			p.cluster(e, c, active)
		}
	case fleet.TypeControl:
		for _, text := range orders(before, p.x.Control, cmp.Or(e.By, p.x.Control.By)) {
			p.line(e.Time, "", "order", "33", text)
		}
	case fleet.TypeStop:
		n := p.x.Counts()
		text := StopText(e.Reason) + ": nothing new starts"
		if active := n[fleet.Running] + n[fleet.Holding]; active > 0 {
			text += fmt.Sprintf("; %s at work", words.Count(active, "cluster"))
		}
		p.line(e.Time, "", "stop", "31;1", text)
	case fleet.TypeMessage:
		p.message(e)
	case fleet.TypeDone: // the summary tells, see end
	}
}

func (p *plain) begin(e fleet.Event) {
	for _, w := range e.Waves {
		p.width = max(p.width, words.Width(w.Name))
	}
	for _, c := range e.Clusters {
		p.width = max(p.width, words.Width(c.Name))
	}
	p.width = min(p.width, widest)
	p.at = e.Time
	text := fmt.Sprintf("%s: %s on %s in %s", e.Fleet, cmp.Or(e.Plan, "a plan"), words.Count(len(e.Clusters), "cluster"), words.Count(len(e.Waves), "wave"))
	p.line(e.Time, "", begins, strong, words.Join(", ", text, words.Prefixed("engine ", e.Engine), words.Prefixed("run ", e.Run)))
}

func (p *plain) message(e fleet.Event) {
	name, colour, text := "note", "2", e.Message
	if e.Error != "" {
		name, colour, text = "error", "31;1", words.Join(": ", e.Message, e.Error)
	}
	p.line(e.Time, cmp.Or(e.Cluster, e.Wave), name, colour, words.Join("\nhint: ", text, p.Hint(e.Hint)))
}

// orders says what somebody ordered.
func orders(before, now fleet.Control, by string) []string {
	var all []string
	by = words.Prefixed(" by ", words.Line(by))
	switch {
	case now.Aborted && now.Now && !before.Now:
		all = append(all, "aborted at once"+by+": what is at work is stopped")
	case now.Aborted && !before.Aborted:
		all = append(all, "aborted"+by+": what is at work goes on to its end")
	case now.Paused && !before.Paused:
		all = append(all, "paused"+by+": nothing new starts, what is at work goes on")
	case before.Paused && !now.Paused:
		all = append(all, "resumed"+by)
	}
	for _, w := range now.Approved {
		if !before.Approves(w) {
			all = append(all, "wave "+w+" approved"+by)
		}
	}
	return all
}

// waveState tells of a state that a wave entered.
func (p *plain) waveState(e fleet.Event, w *fleet.WaveStatus) {
	p.at = e.Time
	if w.State.Over() || w.State == fleet.WaveSoaking {
		p.tellFailures(e.Time, true)
	}
	if w.State.Over() {
		p.wave(w)
	}
	p.line(e.Time, w.Name, stateWord(w.State), waveColours[w.State], words.Join("\n", p.waveText(e, w), words.Prefixed("hint: ", p.waveHint(w))))
}

func (p *plain) waveText(e fleet.Event, w *fleet.WaveStatus) string {
	n := w.Counts()
	sum := fmt.Sprintf("%s in %s: %s", words.Count(len(w.Members), "cluster"), words.Brief(WaveTook(&p.x, w, e.Time)), CountsText(n))
	switch w.State {
	case fleet.WaveApproval:
		return words.Count(n[fleet.Pending], "cluster") + " wait until somebody approves the wave"
	case fleet.WaveRunning:
		text := words.Count(len(w.Members), "cluster")
		if n[fleet.Pending] != len(w.Members) {
			text = fmt.Sprintf("%d of %s to do", n[fleet.Pending], text)
		}
		return fmt.Sprintf("%s, %d at once, %d may fail", text, w.Parallel, w.MaxFailures)
	case fleet.WaveSoaking:
		return fmt.Sprintf("%s; the next wave waits %s, until %s", sum, words.Exact(w.Until.Sub(e.Time).Round(100*time.Millisecond)), w.Until.Local().Format(time.TimeOnly))
	case fleet.WaveSucceeded:
		if left := w.Until.Sub(e.Time); left > 0 {
			return fmt.Sprintf("stopped %s before its soak time is over", words.Exact(left.Round(100*time.Millisecond)))
		}
		if w.SoakSeconds > 0 && n[fleet.Failed] == 0 && p.x.Waves[len(p.x.Waves)-1] != w {
			return "soaked " + words.Exact(time.Duration(w.SoakSeconds*float64(time.Second)))
		}
	case fleet.WaveNotStarted:
		return words.Count(len(w.Members), "cluster")
	case fleet.WavePending, fleet.WaveFailed:
	}
	return sum
}

// waveHint is what to do about a wave's state.
func (p *plain) waveHint(w *fleet.WaveStatus) string {
	if w.State != fleet.WaveApproval {
		return ""
	}
	return words.Prefixed("approve it with: ", p.command("approve", w.Name))
}

// cluster tells of a cluster that failed, or was begun anew while it was active.
func (p *plain) cluster(e fleet.Event, c *fleet.ClusterStatus, active bool) {
	switch {
	case e.State == fleet.Running && e.Attempt > 1 && active:
		p.line(e.Time, c.Name, "running", "33", fmt.Sprintf("begun anew, attempt %d: who worked on it is gone", e.Attempt))
	case e.State == fleet.Failed && e.Result != nil:
		p.failure(e.Time, c)
	}
}

// failure tells of a cluster that failed: the first ones of a cause at once.
func (p *plain) failure(now time.Time, c *fleet.ClusterStatus) {
	cause := fleet.Cause{Class: fleet.StepFailed, Text: c.Result.Error}
	if c.Result.Cause != nil {
		cause = *c.Result.Cause
	}
	f := p.failed[cause]
	if f == nil {
		f = &failing{first: c.Name}
		p.failed[cause] = f
	}
	f.n++
	after := ""
	if d := Took(c, now); d > 0 {
		after = "after " + words.Brief(d)
	}
	switch {
	case f.n == 1:
		p.line(now, c.Name, "failed", colours[fleet.Failed], words.Join("\nhint: ", words.Join(": ", after, ErrorText(c)), p.Hint(c.Result.Hint)))
	case f.n <= tellEach:
		p.line(now, c.Name, "failed", colours[fleet.Failed], words.Join(", ", after, fmt.Sprintf("for the same cause as %s (%d by now)", f.first, f.n)))
	default:
		return
	}
	f.told = f.n
}

// tellFailures tells how many clusters failed of causes of which not each is told: again when
// they are twice as many, or when all is to be told.
func (p *plain) tellFailures(now time.Time, all bool) {
	for _, g := range p.x.Failures() {
		f := p.failed[*g.Cause]
		if f == nil || f.n == f.told || !all && f.n < 2*f.told {
			continue
		}
		f.told = f.n
		p.line(now, "", "failed", colours[fleet.Failed], fmt.Sprintf("%s by now for the same cause as %s: %s", words.Count(f.n, "cluster"), f.first, CauseTitle(g.Cause)))
	}
}

// line writes one line, and further lines of its text below each other.
func (p *plain) line(at time.Time, name, what, colour, text string) {
	p.last = at
	if at.Before(p.Since) && what != begins {
		return
	}
	head := at.Local().Format(time.TimeOnly) + "  " + words.Pad(p.Clean(name), p.width) + "  "
	below := strings.Repeat(" ", min(words.Width(head), 12+widest)+word+2)
	p.Buf.WriteString(head + p.Paint(colour, words.Pad(what, word)) + "  " + strings.TrimRight(words.Indent(p.Clean(text), below), " ") + "\n")
}

// strong is the colour of what stands out.
const strong = "1"

// colours are SGR codes of the sixteen that every terminal theme sets.
var colours = map[fleet.State]string{
	fleet.Pending: "2", fleet.Running: "36", fleet.Holding: "33", fleet.Succeeded: "32", fleet.Unchanged: "32",
	fleet.Failed: "31;1", fleet.Cancelled: "35", fleet.NotStarted: "35",
}

var waveColours = map[fleet.WaveState]string{
	fleet.WavePending: "2", fleet.WaveApproval: "33;1", fleet.WaveRunning: "36", fleet.WaveSoaking: "33",
	fleet.WaveSucceeded: "32", fleet.WaveFailed: "31;1", fleet.WaveNotStarted: "35",
}

// working are the steps that clusters are at, those of most clusters first.
func working(clusters []*fleet.ClusterStatus) string {
	const most = 3
	at := map[string]int{}
	for _, c := range clusters {
		if c.State.Active() && c.Progress.Step != "" {
			at[c.Progress.Step]++
		}
	}
	steps := make([]string, 0, len(at))
	for step := range at {
		steps = append(steps, step)
	}
	slices.SortFunc(steps, func(a, b string) int { return cmp.Or(cmp.Compare(at[b], at[a]), cmp.Compare(a, b)) })
	for i, step := range steps {
		steps[i] = fmt.Sprintf("%d at %s", at[step], words.Line(step))
	}
	return words.List(steps, most)
}
