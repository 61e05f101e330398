package tui

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/stage"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/runner"
)

// screen is the model as bubbletea wants it. Only the program's goroutine uses it,
// but for live.
type screen struct {
	Config
	m      *Model
	player *player // of a recorded run, else nil
	frame  string
	mouse  bool
	live   atomic.Bool // time that passes is to be seen
	crash  error
}

func newScreen(c Config) *screen {
	s := &screen{Config: c, m: NewModel(c.Options), mouse: true}
	s.frame = s.m.View()
	return s
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd { return nil }

// Resize implements stage.Screen.
func (s *screen) Resize(width, height int) {
	s.m.Resize(width, height)
	s.frame = s.m.View()
}

// Live implements stage.Screen.
func (s *screen) Live() bool { return s.live.Load() }

// View implements tea.Model.
func (s *screen) View() string { return s.frame }

// Update implements tea.Model. A fault of the model closes the display, and not
// the run.
func (s *screen) Update(msg tea.Msg) (m tea.Model, cmd tea.Cmd) {
	defer func() {
		if v := recover(); v != nil {
			s.crash = fmt.Errorf("the display failed: %v\n%s", v, bytes.TrimSpace(debug.Stack()))
			m, cmd = s, tea.Quit
		}
	}()
	cmd = s.update(msg)
	s.live.Store(s.m.Live() || s.player != nil && !s.m.paused)
	s.frame = s.m.View()
	return s, cmd
}

func (s *screen) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case func(): // by tests
		msg()
	case stage.Beat[runner.Event]:
		if s.player != nil {
			s.player.play(s.m, msg.Now)
			return nil
		}
		s.m.Tick(msg.Now, msg.Events...)
	case tea.WindowSizeMsg:
		s.m.Resize(msg.Width, msg.Height)
	case tea.KeyMsg:
		return s.press(tea.Key(msg))
	case tea.MouseMsg:
		switch {
		case msg.Button == tea.MouseButtonWheelUp:
			s.m.Wheel(-3)
		case msg.Button == tea.MouseButtonWheelDown:
			s.m.Wheel(3)
		case msg.Button == tea.MouseButtonLeft && msg.Action == tea.MouseActionPress:
			s.m.Click(msg.X, msg.Y)
		}
	}
	return nil
}

// press takes a key, or several that were typed so fast that they came as one.
func (s *screen) press(key tea.Key) tea.Cmd {
	switch {
	case key.Paste:
		s.m.Paste(string(key.Runes))
		return nil
	case key.Type != tea.KeyRunes || key.Alt:
		return s.act(s.m.Press(key.String()))
	}
	var cmds []tea.Cmd
	for _, r := range key.Runes {
		if cmd := s.act(s.m.Press(string(r))); cmd != nil {
			cmds = append(cmds, cmd)
		}
	}
	return tea.Batch(cmds...)
}

func (s *screen) act(a Act) tea.Cmd {
	switch a.Do {
	case DoLeave:
		return tea.Quit
	case DoStop:
		s.Stop()
		if s.m.stops > 1 { // whatever happens now, it is to be seen
			return tea.Quit
		}
	case DoOrder:
		select {
		case s.Command <- a.Order:
		default:
			s.m.say(style.Wait, "not ordered: the run has not taken the last orders yet")
		}
	case DoRedraw:
		return tea.ClearScreen
	case DoMouse:
		if s.mouse = !s.mouse; s.mouse {
			return tea.EnableMouseCellMotion
		}
		return tea.DisableMouse
	case DoNothing:
	}
	return nil
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

// player plays recorded events to a model, as their time passes.
type player struct{ stage.Player[runner.Event] }

// play goes on to the time now of the clock on the wall.
func (p *player) play(m *Model, now time.Time) {
	if len(p.Events) == 0 || m.paused {
		p.Rest(now)
		return
	}
	at, events := p.Play(now, m.Speed)
	m.Tick(at, events...)
}
