package fleetview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

// row is a line of the body. What the cursor can be on has a key; a row of cells has one
// for each of them.
type row struct {
	keys []string
	draw func() string
}

// Keys of what the cursor can be on begin with what it is. That of a cluster's cell has the
// cluster's name after mark.
const (
	waveKey  = "wave "
	causeKey = "cause "
	holdKey  = "hold "
	moreKey  = "more causes"
	mark     = "\x00"
)

// indent is where cells begin.
const indent = 3

// fewCauses is how many groups are shown before the others are asked for.
const fewCauses = 5

// clusterOf is the cluster of a key; nil when it is of something else.
func (m *model) clusterOf(key string) *fleet.ClusterStatus {
	_, name, is := strings.Cut(key, mark)
	if !is {
		return nil
	}
	return m.x.Cluster(name)
}

// rows are all lines of the body, of which the frame shows as many as have room.
func (m *model) rows() []row {
	if m.failed || m.filter != "" {
		return m.list()
	}
	groups := m.groups()
	if len(groups) > 0 {
		groups = append(groups, row{draw: func() string { return "" }})
	}
	return append(groups, m.waves(m.bodyHeight()-len(groups))...)
}

// groups are the rows of what is to be said of several clusters at once: of what failed, by
// cause, and of what waits, by webhook.
func (m *model) groups() []row {
	var rows []row
	for _, g := range m.holds {
		var clusters []*fleet.ClusterStatus
		for _, part := range g {
			clusters = append(clusters, part.Clusters...)
		}
		key := holdKey + g[0].Hold.Webhook + " " + g[0].Hold.Service
		rows = append(rows, m.group(key, fleet.Holding, waits(g), clusters)...)
	}
	for i, g := range m.failures {
		if left := len(m.failures) - i; i >= fewCauses && left > 1 && !m.open[moreKey] {
			rows = append(rows, m.headRow(moreKey, func(l *style.Line, name style.Role) {
				l.Put(name, fmt.Sprintf("… %s; Enter shows them", words.Count(left, "more cause")))
			}))
			break
		}
		key := causeKey + string(g.Cause.Class) + " " + g.Cause.Step + " " + g.Cause.Text
		rows = append(rows, m.group(key, fleet.Failed, fmt.Sprintf("%s: %s", words.Count(len(g.Clusters), "cluster"), CauseText(g.Cause)), g.Clusters)...)
	}
	return rows
}

// group is the row of a group, and when it is open those of its clusters.
func (m *model) group(key string, s fleet.State, text string, clusters []*fleet.ClusterStatus) []row {
	rows := []row{m.headRow(key, func(l *style.Line, name style.Role) {
		role, sign := m.sign(s)
		l.Put(role, sign+" ").Put(name, words.Line(text))
	})}
	if m.open[key] {
		rows = append(rows, m.cells(key, clusters)...)
	}
	return rows
}

// headRow is a row with one key, which has a sign before it when the cursor is on it.
func (m *model) headRow(key string, put func(l *style.Line, name style.Role)) row {
	return row{keys: []string{key}, draw: func() string {
		l, name := m.Line(m.width), style.Plain
		if m.cursor == key {
			l.Put(style.Accent, m.Sign("▌", ">"))
			name = style.Strong
		}
		put(l.To(1), name)
		return l.String()
	}}
}

// waves are the rows of all waves with their cells. Where not all have room, those that
// have nothing to show are closed until the user opens them.
func (m *model) waves(room int) []row {
	all := len(m.x.Waves)
	for _, w := range m.x.Waves {
		all += (len(w.Members) + m.perRow() - 1) / m.perRow()
	}
	var rows []row
	for _, w := range m.x.Waves {
		key := waveKey + w.Name
		rows = append(rows, m.headRow(key, func(l *style.Line, name style.Role) { m.waveHead(l, name, w) }))
		open, said := m.open[key]
		if !said {
			open = all <= room || m.interesting(w)
		}
		if open {
			rows = append(rows, m.cells(key, w.Members)...)
		}
	}
	return rows
}

// interesting reports whether the cells of a wave say more than that it is to come, or done.
func (m *model) interesting(w *fleet.WaveStatus) bool {
	n := w.Counts()
	return n[fleet.Pending] < len(w.Members) && n[fleet.Succeeded]+n[fleet.Unchanged] < len(w.Members) && n[fleet.NotStarted] < len(w.Members)
}

// perRow is how many cells a row has.
func (m *model) perRow() int { return max((m.width-indent-1)/2, 1) }

// cells are rows with a cell for each cluster; key is that of what they belong to.
func (m *model) cells(key string, clusters []*fleet.ClusterStatus) []row {
	var rows []row
	for part := range slices.Chunk(clusters, m.perRow()) {
		keys := make([]string, len(part))
		for i, c := range part {
			keys[i] = key + mark + c.Name
		}
		rows = append(rows, row{keys: keys, draw: func() string {
			l := m.Line(m.width).To(indent - 1)
			left := " "
			for i, c := range part {
				role, sign := m.sign(c.State)
				if keys[i] == m.cursor {
					l.Put(style.Accent, "[").Put(role, sign)
					left = "]"
					continue
				}
				l.Put(bracket(left), left).Put(role, sign)
				left = " "
			}
			return l.Put(bracket(left), left).String()
		}})
	}
	return rows
}

// bracket is how what stands between two cells looks.
func bracket(s string) style.Role {
	if s == " " {
		return style.Plain
	}
	return style.Accent
}

// waveHead writes the line of a wave: its state, how far it is and how long it has taken.
func (m *model) waveHead(l *style.Line, name style.Role, w *fleet.WaveStatus) {
	n := w.Counts()
	role, sign := m.waveSign(w.State)
	if w.State == fleet.WaveRunning {
		role, sign = m.spinning(fleet.Running)
	}
	l.Put(role, sign+" ").Cell(name, words.Line(w.Name), m.waveWidth()).Cell(role, stateWord(w.State), 11)
	l.Number(style.Plain, fmt.Sprintf("%d/%d", over(n), len(w.Members)), 9)
	took := ""
	if d := WaveTook(&m.x, w, m.now); d > 0 {
		took = words.Brief(d)
	}
	l.Number(style.Plain, took, 7)
	for _, s := range []fleet.State{fleet.Failed, fleet.Cancelled, fleet.Holding} {
		if n[s] > 0 {
			role, sign := m.sign(s)
			l.Put(style.Plain, " ").Put(role, fmt.Sprintf("%s %d", sign, n[s]))
		}
	}
	switch {
	case w.State == fleet.WaveSoaking:
		l.Put(style.Wait, " soaks "+words.Brief(w.Until.Sub(m.now)))
	case w.State == fleet.WaveApproval:
		l.Put(style.Wait, " waits until somebody approves it")
	case w.State == fleet.WavePending && w.Approve && !m.x.Control.Approves(w.Name):
		l.Put(style.Dim, " wants approval")
	}
	if !w.State.Over() && w.State != fleet.WaveSoaking && l.Room() > 24 {
		l.Put(style.Dim, fmt.Sprintf(" %d at once, %d may fail", w.Parallel, w.MaxFailures))
	}
}

func (m *model) waveWidth() int {
	n := 4
	for _, w := range m.x.Waves {
		n = max(n, words.Width(words.Line(w.Name)))
	}
	return min(n, max(m.width/5, 8))
}

// list are the rows of clusters that the filter lets through, one below the other.
func (m *model) list() []row {
	var rows []row
	for _, c := range m.x.Clusters {
		if m.failed && c.State != fleet.Failed && c.State != fleet.Cancelled || !matches(m.filter, c) {
			continue
		}
		key := "list" + mark + c.Name
		rows = append(rows, m.headRow(key, func(l *style.Line, name style.Role) {
			role, sign := m.sign(c.State)
			l.Put(role, sign+" ").Cell(role, stateWord(c.State), 11).Cell(name, words.Line(c.Name), min(m.names, max(m.width/3, 12)))
			took := ""
			if d := Took(c, m.now); d > 0 {
				took = words.Brief(d)
			}
			l.Number(style.Plain, took, 6).Put(style.Plain, " ").Put(style.Dim, Note(c))
		}))
	}
	return rows
}

// matches reports whether a cluster has all words of a filter.
func matches(filter string, c *fleet.ClusterStatus) bool {
	text := strings.ToLower(strings.Join([]string{c.Name, c.Wave, string(c.State), stateWord(c.State), c.Source, c.Server}, " "))
	for word := range strings.FieldsSeq(strings.ToLower(filter)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// detail says more of what has the cursor, in at most so many lines.
func (m *model) detail(lines int) []string {
	var texts []string
	c := m.clusterOf(m.cursor)
	switch {
	case c != nil:
		role, sign := m.spinning(c.State)
		l := m.Line(m.width).Put(style.Plain, " ").Put(style.Strong, words.Line(c.Name)).Put(style.Plain, "  ").Put(role, sign+" "+stateWord(c.State))
		took, attempt := "", ""
		if d := Took(c, m.now); d > 0 {
			took = words.Brief(d)
		}
		if c.Attempt > 1 {
			attempt = fmt.Sprintf("begun %d times", c.Attempt)
		}
		l.Put(style.Dim, "  "+words.Join("  ", took, attempt, words.Line(c.Wave), words.Line(c.Server), words.Line(c.Source)))
		texts = append(texts, l.String())
		hint := ""
		if c.Result != nil {
			hint = words.Line(c.Result.Hint)
		}
		texts = append(texts, m.paragraph(style.Plain, Note(c))...)
		texts = append(texts, m.paragraph(style.Dim, words.Prefixed("hint: ", hint))...)
	case strings.HasPrefix(m.cursor, causeKey), strings.HasPrefix(m.cursor, holdKey):
		text, names := m.groupDetail()
		texts = append(m.paragraph(style.Plain, text), m.paragraph(style.Dim, names)...)
	}
	if len(texts) > lines {
		texts = texts[:lines]
	}
	return texts
}

// groupDetail is the text of the group that has the cursor, and the names of its clusters.
func (m *model) groupDetail() (text, names string) {
	for _, g := range m.failures {
		if m.cursor == causeKey+string(g.Cause.Class)+" "+g.Cause.Step+" "+g.Cause.Text {
			return CauseText(g.Cause), allNames(g.Clusters)
		}
	}
	for _, g := range m.holds {
		if m.cursor == holdKey+g[0].Hold.Webhook+" "+g[0].Hold.Service {
			return waits(g), allNames(g[0].Clusters)
		}
	}
	return "", ""
}

func allNames(clusters []*fleet.ClusterStatus) string {
	names := make([]string, len(clusters))
	for i, c := range clusters {
		names[i] = words.Line(c.Name)
	}
	return words.List(names, 100)
}

func (m *model) paragraph(role style.Role, text string) []string {
	if text == "" {
		return nil
	}
	var lines []string
	for _, part := range words.Wrap(text, m.width-2) {
		lines = append(lines, m.Line(m.width).Put(style.Plain, " ").Put(role, part).String())
	}
	return lines
}

// banner says why nothing is begun, in a line above the rows; "" while something is.
func (m *model) banner() (style.Role, string) {
	switch {
	case m.x.Error != "" && m.x.State != fleet.Succeeded:
		return style.Bad, words.Line(words.Join("; ", m.x.Error, words.Prefixed("hint: ", m.x.Hint)))
	case m.x.Stop != nil:
		return style.Bad, "nothing new starts: " + StopText(m.x.Stop)
	case m.ended():
		return style.Plain, ""
	case m.x.Control.Paused:
		return style.Wait, "paused" + words.Prefixed(" by ", words.Line(m.x.Control.By)) + ": nothing new starts"
	}
	for _, w := range m.x.Waves {
		switch w.State {
		case fleet.WaveApproval:
			text := fmt.Sprintf("wave %s waits until somebody approves it", words.Line(w.Name))
			if m.Orders {
				text += ": a does"
			}
			return style.Wait, text
		case fleet.WaveSoaking:
			return style.Wait, fmt.Sprintf("wave %s soaks until %s", words.Line(w.Name), w.Until.Local().Format(time.TimeOnly))
		case fleet.WavePending, fleet.WaveRunning, fleet.WaveSucceeded, fleet.WaveFailed, fleet.WaveNotStarted:
		}
	}
	return style.Plain, ""
}
