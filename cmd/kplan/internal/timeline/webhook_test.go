package timeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/runner"
)

// feed applies events of one webhook, such as "3 a stands backed waiting",
// "4 a held Pod/x", "5 a released Pod/x" or "6 a succeeded", to a run of the
// steps a and b.
func feed(w runner.Webhook, lines ...string) *Timeline {
	events := run("a, b", "0 a running", "0 b running")
	for _, line := range lines {
		words := strings.Fields(line)
		after, err := time.ParseDuration(words[0] + "s")
		if err != nil {
			panic(err) // a fault of the test
		}
		hook := w
		e := runner.Event{Time: events[0].Time.Add(after), Step: words[1], Webhook: &hook}
		switch words[2] {
		case "stands":
			e.Type, hook.Rung, hook.State = runner.TypeWebhook, words[3], words[4]
			hook.Configuration = "conf"
			hook.Cause = strings.Join(words[5:], " ")
		case "held":
			e.Type, e.Object, hook.Cause = runner.TypeHeld, words[3], "refused"
		case "released":
			e.Type, e.Object, hook.Sends = runner.TypeReleased, words[3], 2
			e.Error = strings.Join(words[4:], " ")
		default:
			e.Type, e.State, e.Webhook = runner.TypeState, runner.State(words[2]), nil
		}
		events = append(events, e)
	}
	return fold(events)
}

// rungs writes rungs as "backed waiting 1-3".
func rungs(t *Timeline, all []Rung) string {
	var texts []string
	for _, r := range all {
		text := strings.TrimSpace(r.Name + " " + r.State)
		if !r.From.IsZero() {
			text += fmt.Sprintf(" %g-", r.From.Sub(t.Start()).Seconds())
		}
		if !r.To.IsZero() {
			text += fmt.Sprintf("%g", r.To.Sub(t.Start()).Seconds())
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

func TestWebhook(t *testing.T) {
	hook := runner.Webhook{Name: "w.example.com", Service: "ns/w"}
	tests := []struct {
		name          string
		hook          runner.Webhook
		events        []string
		stood, ladder string
	}{
		{"climbs and answers", hook, []string{
			"1 a held X/1", "1 a stands backed waiting no endpoints", "3 a stands backed waiting not ready", "5 a stands serving waiting refused", "7 a released X/1", "8 a succeeded",
		}, "backed waiting 1-3, backed waiting 3-5, serving waiting 5-7, admitting ready 7-", "configured ready 1-, trusted ready 1-, routed ready 1-, backed ready 5-, serving ready 7-, admitting ready 7-"},
		{"is not there yet", hook, []string{
			"1 a stands configured waiting", "2 a stands trusted waiting",
		}, "configured waiting 1-2, trusted waiting 2-", "configured ready 2-, trusted waiting 2-, routed, backed, serving, admitting"},
		{"stands at one rung for several causes", hook, []string{
			"1 a stands backed waiting x", "2 a stands backed waiting y",
		}, "backed waiting 1-2, backed waiting 2-", "configured ready 1-, trusted ready 1-, routed ready 1-, backed waiting 1-, serving, admitting"},
		{"falls again", hook, []string{
			"1 a stands serving waiting", "2 a stands backed waiting", "3 a stands serving waiting",
		}, "serving waiting 1-2, backed waiting 2-3, serving waiting 3-", "configured ready 1-, trusted ready 1-, routed ready 1-, backed ready 3-, serving waiting 3-, admitting"},
		{"nobody looks any more", hook, []string{
			"1 a stands backed waiting", "2 b stands backed waiting", "3 a failed", "5 b failed",
		}, "backed waiting 1-5", "configured ready 1-, trusted ready 1-, routed ready 1-, backed waiting 1-5, serving, admitting"},
		{"a URL has no Service", runner.Webhook{Name: "w"}, []string{
			"1 a stands serving failed", "4 a stands admitting ready", "5 a succeeded",
		}, "serving failed 1-4, admitting ready 4-", "configured ready 1-, trusted ready 1-, serving ready 4-, admitting ready 4-"},
		{"a rung of another version", hook, []string{"1 a stands dancing waiting"}, "dancing waiting 1-", "configured, trusted, routed, backed, serving, admitting, dancing waiting 1-"},
		{"only holds", hook, []string{"1 a held X/1", "2 a released X/1"}, "", ""},
		{"gives up", hook, []string{
			"1 a stands backed waiting", "1 a held X/1", "2 a released X/1 timed out",
		}, "backed waiting 1-", "configured ready 1-, trusted ready 1-, routed ready 1-, backed waiting 1-, serving, admitting"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := feed(test.hook, test.events...)
			check(t, l)
			require.Len(t, l.Webhooks(), 1)
			require.Equal(t, test.stood, rungs(l, l.Webhooks()[0].Rungs))
			require.Equal(t, test.ladder, rungs(l, l.Webhooks()[0].Ladder()))
		})
	}
}

// TestWebhookOfEvent checks which events belong to one webhook: those of held
// requests name no configuration.
func TestWebhookOfEvent(t *testing.T) {
	events := run("a, b", "0 a running", "0 b running")
	events[0].Steps[1].Cluster = "other"
	tell := func(step string, typ runner.Type, w runner.Webhook) {
		object := "X/" + w.Service
		events = append(events, runner.Event{Time: events[0].Time, Type: typ, Step: step, Object: object, Webhook: &w})
	}
	tell("a", runner.TypeHeld, runner.Webhook{Name: "w"})                                                       // 0
	tell("a", runner.TypeWebhook, runner.Webhook{Name: "w", Service: "ns/w", Configuration: "c1", Rung: "x"})   // 0: it was met before
	tell("a", runner.TypeWebhook, runner.Webhook{Name: "w", Service: "ns/two", Configuration: "c2", Rung: "x"}) // 1: configured twice
	tell("a", runner.TypeHeld, runner.Webhook{Name: "w", Service: "ns/two"})                                    // 1
	tell("a", runner.TypeHeld, runner.Webhook{Name: "w", Service: "ns/w"})                                      // 0
	tell("b", runner.TypeHeld, runner.Webhook{Name: "w", Service: "ns/w"})                                      // 2: another cluster
	tell("a", runner.TypeHeld, runner.Webhook{Name: runner.APIServer})                                          // 3
	l := fold(events)
	check(t, l)
	var got []string
	for _, hook := range l.Webhooks() {
		got = append(got, fmt.Sprintf("%s %s %s %s: %d", hook.Cluster, hook.Configuration, hook.Name, hook.Service, hook.Requests))
	}
	require.Equal(t, []string{" c1 w ns/w: 2", " c2 w ns/two: 1", "other  w ns/w: 1", "  API server : 1"}, got)
}

// TestHoldTime counts requests that are held side by side once.
func TestHoldTime(t *testing.T) {
	l := feed(runner.Webhook{Name: "w"}, "1 a held X/1", "2 b held X/2", "3 a released X/1", "4 b released X/2", "6 a held X/3")
	check(t, l)
	hook := l.Webhooks()[0]
	require.Equal(t, 3*time.Second+time.Second, hook.HoldTime(l.Start().Add(7*time.Second)))
	require.Equal(t, 1, hook.Held)
	require.Equal(t, 4, hook.Sends)
	require.Equal(t, 2*time.Second, hook.Longest)
}
