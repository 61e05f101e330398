package fleetview

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/stage"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// screen is the model as bubbletea wants it. Only the program's goroutine uses it, but for
// live and shown.
type screen struct {
	Config
	m      *model
	player *stage.Player[fleet.Event] // of a recorded run, else nil
	frame  string
	mouse  bool
	live   atomic.Bool // time that passes is to be seen
	shown  shown
	crash  error
}

// What is told to the screen once it is known.
type (
	// opened are the events of a cluster's own run so far.
	opened struct {
		cluster string
		events  []runner.Event
		err     error
	}
	// ordered is what became of an order.
	ordered struct {
		order Order
		err   error
	}
)

func newScreen(c Config) *screen {
	s := &screen{Config: c, m: newModel(c.Look), mouse: true}
	s.frame = s.m.view()
	return s
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd { return nil }

// Resize implements stage.Screen.
func (s *screen) Resize(width, height int) {
	s.m.resize(width, height)
	s.frame = s.m.view()
}

// Live implements stage.Screen.
func (s *screen) Live() bool { return s.live.Load() }

// View implements tea.Model.
func (s *screen) View() string { return s.frame }

// Update implements tea.Model. A fault of the model closes the display, and not the run.
func (s *screen) Update(msg tea.Msg) (m tea.Model, cmd tea.Cmd) {
	defer func() {
		if v := recover(); v != nil {
			s.crash = fmt.Errorf("the display failed: %v\n%s", v, bytes.TrimSpace(debug.Stack()))
			m, cmd = s, tea.Quit
		}
	}()
	cmd = s.update(msg)
	s.live.Store(s.m.live() || s.player != nil && !s.m.paused)
	s.frame = s.m.view()
	return s, cmd
}

func (s *screen) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case func(): // by tests
		msg()
	case stage.Beat[happened]:
		s.beat(msg)
	case opened:
		s.opened(msg)
	case ordered:
		if msg.err != nil {
			s.m.say(style.Bad, words.Line(fmt.Sprintf("%s refused: %v", msg.order.Verb, msg.err)))
		}
	case tea.WindowSizeMsg:
		s.m.resize(msg.Width, msg.Height)
	case tea.KeyMsg:
		return s.press(tea.Key(msg))
	case tea.MouseMsg:
		switch {
		case msg.Button == tea.MouseButtonWheelUp:
			s.m.wheel(-3)
		case msg.Button == tea.MouseButtonWheelDown:
			s.m.wheel(3)
		case msg.Button == tea.MouseButtonLeft && msg.Action == tea.MouseActionPress:
			return s.act(s.m.click(msg.X, msg.Y))
		}
	}
	return nil
}

// beat takes a batch of what happened.
func (s *screen) beat(b stage.Beat[happened]) {
	if s.player != nil {
		s.play(b.Now)
		return
	}
	var events []fleet.Event
	for _, h := range b.Events {
		if h.cluster != "" {
			s.m.inner(h.cluster, h.inner)
			continue
		}
		events = append(events, h.fleet)
	}
	s.m.tick(b.Now, events...)
}

// play plays a recorded run on to the time now.
func (s *screen) play(now time.Time) {
	if len(s.player.Events) == 0 || s.m.paused {
		s.player.Rest(now)
		return
	}
	at, events := s.player.Play(now, s.m.Speed)
	s.m.tick(at, events...)
}

// press takes a key, or several that were typed so fast that they came as one.
func (s *screen) press(key tea.Key) tea.Cmd {
	switch {
	case key.Paste:
		s.m.paste(string(key.Runes))
		return nil
	case key.Type != tea.KeyRunes || key.Alt:
		return s.act(s.m.press(key.String()))
	}
	var cmds []tea.Cmd
	for _, r := range key.Runes {
		if cmd := s.act(s.m.press(string(r))); cmd != nil {
			cmds = append(cmds, cmd)
		}
	}
	return tea.Batch(cmds...)
}

func (s *screen) act(a act) tea.Cmd {
	switch a.do {
	case doLeave:
		return tea.Quit
	case doStop:
		if s.Stop != nil {
			s.Stop()
		}
		if s.Detached || s.m.stops > 1 { // whatever happens now, it is to be seen
			return tea.Quit
		}
	case doOrder:
		if s.Order == nil {
			return nil
		}
		return func() tea.Msg { return ordered{a.order, s.Order(a.order)} }
	case doOpen:
		return s.openMember(a.cluster)
	case doClose:
		s.shown.Store(nil)
	case doRedraw:
		return tea.ClearScreen
	case doMouse:
		if s.mouse = !s.mouse; s.mouse {
			return tea.EnableMouseCellMotion
		}
		return tea.DisableMouse
	case doNothing:
	}
	return nil
}

// openMember has what happened so far in a cluster's own run read, while what happens from
// now on is kept.
func (s *screen) openMember(cluster string) tea.Cmd {
	s.shown.Store(&cluster)
	if s.Events == nil {
		s.opened(opened{cluster: cluster})
		return nil
	}
	return func() tea.Msg {
		events, err := s.Events(cluster)
		return opened{cluster, events, err}
	}
}

// opened shows the events of a cluster, unless the user has gone back meanwhile.
func (s *screen) opened(o opened) {
	m := s.m.member
	if m == nil || m.name != o.cluster || m.read {
		return
	}
	m.begin(o.events)
	m.tick(s.m.now)
	if o.err != nil {
		s.m.member = nil
		s.shown.Store(nil)
		s.m.say(style.Bad, words.Line(o.err.Error()))
	}
}

// Fault implements stage.Screen.
func (s *screen) Fault(err error) error {
	switch {
	case s.crash != nil:
		return s.crash
	case err == nil, err == tea.ErrProgramKilled: //nolint:errorlint // one that wraps it is a fault
		return nil
	}
	return fmt.Errorf("the display failed: %w", err)
}
