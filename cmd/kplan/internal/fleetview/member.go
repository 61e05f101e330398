package fleetview

import (
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/runner"
)

// member shows one cluster's own run, with all of its views.
type member struct {
	name    string
	options tui.Options
	m       *tui.Model
	width   int
	height  int
	plan    time.Time // when the run that is shown began
	seq     int       // the last event that was shown
	// early are events that came before those from the beginning were read; nil afterwards.
	early []runner.Event
	read  bool
}

func (m *model) newMember(name string) *member {
	o := tui.Options{Colour: m.Look.Colour, Unicode: m.Look.Unicode, Version: m.Version, Member: name}
	s := &member{name: name, options: o, m: tui.NewModel(o)}
	s.resize(m.width, m.height)
	s.tick(m.now)
	return s
}

func (s *member) resize(width, height int) {
	s.width, s.height = width, height
	s.m.Resize(width, height)
}

func (s *member) tick(now time.Time) { s.m.Tick(now) }

// begin takes the events from the beginning, and then those that came meanwhile.
func (s *member) begin(events []runner.Event) {
	s.read = true
	early := s.early
	s.early = nil
	s.feed(events...)
	s.feed(early...)
}

// feed takes events, each once. A run that begins takes the place of the one before it, as
// that of a worker's successor does.
func (s *member) feed(events ...runner.Event) {
	if !s.read {
		s.early = append(s.early, events...)
		return
	}
	for _, e := range events {
		switch {
		case e.Type == runner.TypePlan && e.Time.After(s.plan):
			s.plan, s.m = e.Time, tui.NewModel(s.options)
			s.m.Resize(s.width, s.height)
		case e.Seq <= s.seq:
			continue
		}
		s.seq = e.Seq
		s.m.Tick(e.Time, e)
	}
}
