package fleetview

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/runner"
)

// at makes a model of what is known at a moment.
func modelAt(l Look, events []fleet.Event, d time.Duration) *model {
	m := newModel(l)
	now := events[0].Time.Add(d)
	for i, e := range events {
		if e.Time.After(now) {
			events = events[:i]
			break
		}
	}
	m.tick(now, events...)
	return m
}

// presses presses keys one after another.
func presses(m *model, keys ...string) (last act) {
	for _, key := range keys {
		last = m.press(key)
	}
	return last
}

// fits checks that a frame fills a screen and is not wider than it.
func fits(t testing.TB, view string, width, height int) {
	t.Helper()
	lines := strings.Split(view, "\n")
	require.Len(t, lines, height)
	for _, line := range lines {
		require.LessOrEqual(t, words.Width(line), width, "%q", line)
	}
}

var sizes = [][2]int{{40, 12}, {60, 20}, {100, 30}, {160, 50}}

// TestFrames draws recorded runs at some moments and sizes, and after some keys.
func TestFrames(t *testing.T) {
	all := recordings()
	all["crowd"] = crowd(1000, time.Hour)
	for _, c := range []struct {
		run  string
		at   time.Duration
		keys string
	}{
		{"good", 30 * time.Second, ""},
		{"good", 5 * time.Minute, ""},
		{"good", 14 * time.Minute, "a"},
		{"good", time.Hour, "down down down right"},
		{"resumed", 85 * time.Second, ""},
		{"resumed", 95 * time.Second, "down enter down"},
		{"resumed", 150 * time.Second, "down down"},
		{"resumed", 10 * time.Minute, "f down"},
		{"resumed", 10 * time.Minute, "/ e a s t space f a i l e d enter down"},
		{"resumed", 90 * time.Minute, ""},
		{"aborted", time.Minute, "x"},
		{"aborted", time.Hour, ""},
		{"crowd", 3 * time.Minute, ""},
		{"crowd", 3 * time.Minute, "G down right right"},
		{"crowd", time.Hour, "?"},
	} {
		name := strings.ReplaceAll(fmt.Sprintf("%s-%s", c.run, words.Exact(c.at)), " ", "")
		if c.keys != "" {
			name += "-" + strings.NewReplacer(" ", "", "/", "filter-", "?", "help").Replace(c.keys)
		}
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			for _, size := range sizes {
				draw := func(l Look) string {
					l.Orders, l.Version = true, "v1.2.3"
					m := modelAt(l, all[c.run], c.at)
					m.resize(size[0], size[1])
					for key := range strings.FieldsSeq(c.keys) {
						m.press(strings.ReplaceAll(key, "space", " "))
					}
					return m.view()
				}
				got := draw(Look{Unicode: true})
				require.Equal(t, got, words.Clean(draw(Look{Unicode: true, Colour: true})), "colours only repeat what signs and words say")
				fits(t, got, size[0], size[1])
				ascii := draw(Look{})
				require.Equal(t, len(ascii), len([]rune(ascii)))
				fits(t, ascii, size[0], size[1])
				fmt.Fprintf(&out, "== %dx%d\n%s\n", size[0], size[1], got)
			}
			golden(t, filepath.Join("frames", name+".txt"), out.String())
		})
	}
}

// Every cluster can be come to with the cursor, and its own run is shown.
func TestCursor(t *testing.T) {
	m := modelAt(Look{}, crowd(1000, time.Hour), 2*time.Minute)
	m.resize(60, 20)
	for _, w := range m.x.Waves {
		m.open[waveKey+w.Name] = true
	}
	seen := map[string]bool{}
	last := "-"
	for m.press("right"); m.cursor != last; m.press("right") {
		last = m.cursor
		require.Contains(t, m.view(), map[bool]string{true: "[", false: ">"}[m.clusterOf(last) != nil], "the cursor is seen")
		if c := m.clusterOf(last); c != nil {
			seen[c.Name] = true
			require.Contains(t, m.view(), c.Name)
		}
	}
	require.Len(t, seen, 1000)
	for m.press("left"); m.cursor != last; m.press("left") {
		last = m.cursor
	}
	require.Equal(t, m.rows()[0].keys[0], m.cursor)
}

// Keys that order want an answer where the order cannot be taken back.
func TestOrders(t *testing.T) {
	all := recordings()["good"]
	m := modelAt(Look{Orders: true}, all, 14*time.Minute)
	require.Contains(t, m.view(), "wave rest waits until somebody approves it: a does")
	require.Equal(t, act{}, presses(m, "a"))
	require.Contains(t, m.view(), "approve wave rest? 36 clusters begin  [y/n]")
	require.Equal(t, act{}, presses(m, "n"))
	require.Equal(t, act{do: doOrder, order: Order{Verb: Approve, Wave: "rest"}}, presses(m, "a", "y"))
	require.Equal(t, act{do: doOrder, order: Order{Verb: Pause}}, presses(m, "p"))
	m.tick(m.now, fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{Paused: true}, Time: m.now, By: "ada@desk"})
	require.Contains(t, m.view(), "paused by ada@desk: nothing new starts")
	require.Equal(t, act{do: doOrder, order: Order{Verb: Resume}}, presses(m, "p"))
	require.Equal(t, act{do: doOrder, order: Order{Verb: Abort}}, presses(m, "x", "y"))
	m.tick(m.now, fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{Aborted: true}, Time: m.now})
	require.Equal(t, act{do: doOrder, order: Order{Verb: Abort, Now: true}}, presses(m, "x", "y"))
	require.Equal(t, act{do: doStop}, presses(m, "ctrl+c"))
	require.Equal(t, act{do: doLeave}, presses(m, "q"))

	m = modelAt(Look{}, all, 14*time.Minute)
	require.Equal(t, act{}, presses(m, "a", "y", "p", "x", "y"), "the run takes no orders")
}

// A cluster's own run is shown from its beginning, each event once, also while it goes on
// and when a successor begins anew.
func TestMember(t *testing.T) {
	events, err := ledger.ReadEvents("../ui/testdata/events/race.jsonl")
	require.NoError(t, err)
	m := modelAt(Look{Unicode: true}, recordings()["good"], 30*time.Second)
	m.resize(100, 30)
	presses(m, "down", "down")
	a := presses(m, "enter")
	require.Equal(t, doOpen, a.do)
	require.Equal(t, "prod/east-01", a.cluster)
	require.Contains(t, m.view(), "nothing is told of the plan on this cluster yet")

	m.inner(a.cluster, events[10:20]...)
	m.inner("prod/east-02", events[3])
	m.member.begin(events[:15])
	m.inner(a.cluster, events[20:]...)
	require.Contains(t, m.view(), "prod/east-01: race")
	require.Contains(t, m.view(), "2 succeeded")
	require.Contains(t, presses2(m, "2"), "[2 timeline]")
	require.Contains(t, presses2(m, "3"), "[3 webhooks]")

	again := make([]runner.Event, 3)
	for i, e := range events[:3] {
		e.Time = e.Time.Add(time.Hour)
		again[i] = e
	}
	m.inner(a.cluster, again...)
	require.Contains(t, presses2(m, "1"), "0/3")

	require.Equal(t, act{do: doClose}, presses(m, "esc"))
	require.Contains(t, m.view(), "[60 clusters in 3 waves]")
	require.Contains(t, m.view(), "[≡]", "the cursor is where it was")
}

func presses2(m *model, keys ...string) string {
	presses(m, keys...)
	return m.view()
}

// A filter is typed, pasted and dropped.
func TestFilter(t *testing.T) {
	m := modelAt(Look{}, recordings()["resumed"], 10*time.Minute)
	presses(m, "/")
	m.paste("west\n")
	presses(m, "enter")
	require.Contains(t, m.view(), "filter: west")
	require.NotContains(t, m.view(), "prod/east")
	presses(m, "esc", "f")
	require.Contains(t, m.view(), "failures only")
	require.Equal(t, 1+8, strings.Count(m.view(), "x failed"), "the run and its clusters")
	presses(m, "esc")
	require.Contains(t, m.view(), "canary")
}

func TestMouse(t *testing.T) {
	m := modelAt(Look{}, recordings()["good"], 30*time.Second)
	require.Equal(t, act{}, m.click(indent+2*2, 5))
	require.Equal(t, "prod/west-01", m.clusterOf(m.cursor).Name)
	require.Equal(t, act{do: doOpen, cluster: "prod/west-01"}, m.click(indent+2*2, 5))
}
