package fleetview

import (
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// Look says how the display looks, and what its keys may do.
type Look struct {
	// Colour and Unicode are what the terminal can show. Colours only repeat what signs and
	// words say.
	Colour, Unicode bool
	// Version is kplan's, for the header.
	Version string
	// Orders says that the run takes orders.
	Orders bool
	// Detached says that the run goes on elsewhere: ^C leaves it.
	Detached bool
	// Stay keeps the display open after the run has ended, until a key closes it.
	Stay bool
	// Replay says that the run was recorded, and Speed how many times as fast as it was it
	// is played; 0 is all at once.
	Replay bool
	Speed  float64
}

// model is all that the display knows: view is a function of it alone. Time comes in by
// tick only, so that the same events give the same frames.
//
// It is not safe for concurrent use, and knows nothing of terminals.
type model struct {
	Look
	style.Theme
	x        fleet.Execution
	now      time.Time
	failures []fleet.Group
	holds    [][]fleet.Group
	names    int // width of the longest cluster's name

	width, height int
	cursor        string // the key of what has the cursor; "" while it follows
	column        int    // where the cursor goes in the row above or below
	top           int
	open          map[string]bool // rows that the user opened or closed, by key
	filter        string
	typing        bool // the filter
	failed        bool // only what failed is shown
	help          bool
	helpTop       int

	ask    *question
	flash  flash
	stops  int // how often ^C was pressed
	paused bool
	member *member // the cluster whose own run is shown, else nil
}

// question waits for y or n.
type question struct {
	text string
	yes  act
}

// flash is a notice that goes away.
type flash struct {
	role  style.Role
	text  string
	until time.Time
}

const flashFor = 5 * time.Second

func newModel(l Look) *model {
	return &model{Look: l, Theme: style.Theme{Colour: l.Colour, Unicode: l.Unicode}, width: 80, height: 24, open: map[string]bool{}}
}

// resize says how large the terminal is, in cells.
func (m *model) resize(width, height int) {
	m.width, m.height = max(width, 1), max(height, 1)
	if m.member != nil {
		m.member.resize(m.width, m.height)
	}
}

// tick says what time it is, and what happened.
func (m *model) tick(now time.Time, events ...fleet.Event) {
	for _, e := range events {
		m.apply(e)
	}
	if now.After(m.now) && !m.ended() {
		m.now = now
	}
	if len(events) > 0 {
		m.failures, m.holds = m.x.Failures(), holdsByWebhook(&m.x)
		if m.ended() {
			m.now = m.x.Last
		}
	}
	if m.member != nil {
		m.member.tick(m.now)
	}
}

func (m *model) apply(e fleet.Event) {
	before := m.x.Control
	m.x.Apply(e)
	switch e.Type {
	case fleet.TypeFleet:
		m.names = 0
		for _, c := range e.Clusters {
			m.names = max(m.names, words.Width(words.Line(c.Name)))
		}
		m.now = e.Time
	case fleet.TypeResume:
		m.now = e.Time
	case fleet.TypeControl:
		for _, text := range orders(before, m.x.Control, e.By) {
			m.flash = flash{style.Good, text, e.Time.Add(flashFor)}
		}
	case fleet.TypeMessage:
		role := style.Plain
		if e.Error != "" {
			role = style.Bad
		}
		m.flash = flash{role, words.Line(words.Join(": ", e.Message, e.Error)), e.Time.Add(2 * flashFor)}
	case fleet.TypeDone:
		m.flash = flash{}
	case fleet.TypeWave, fleet.TypeCluster, fleet.TypeStop:
	}
}

func (m *model) say(role style.Role, text string) { m.flash = flash{role, text, m.now.Add(flashFor)} }

// ended reports whether the round has ended.
func (m *model) ended() bool { return m.x.State != "" && m.x.State != fleet.Running }

// live reports whether anything shown changes by itself as time passes.
func (m *model) live() bool {
	return m.now.Before(m.flash.until) || !m.paused && m.x.State == fleet.Running || m.member != nil && m.member.m.Live()
}

// inner takes what happened in a cluster's own run, if that is shown.
func (m *model) inner(cluster string, events ...runner.Event) {
	if m.member != nil && m.member.name == cluster {
		m.member.feed(events...)
		m.member.tick(m.now)
	}
}

// view draws a frame: exactly as many lines as the terminal has, none wider.
func (m *model) view() string {
	if m.member != nil {
		return m.member.m.View()
	}
	return frame{m}.draw()
}
