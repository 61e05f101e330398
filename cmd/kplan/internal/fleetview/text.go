package fleetview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

// fewNames is how many clusters of a group are named.
const fewNames = 5

// Names names the first clusters of a group, and says how many more there are.
func Names(clusters []*fleet.ClusterStatus) string {
	names := make([]string, 0, fewNames)
	for _, c := range clusters[:min(len(clusters), fewNames)] {
		names = append(names, c.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(clusters) - fewNames; more > 0 {
		text += fmt.Sprintf(", +%d more", more)
	}
	return text
}

// classes say in words what kind of failure there was.
var classes = map[fleet.Class]string{
	fleet.Unreachable:    "out of reach",
	fleet.Refused:        "access refused",
	fleet.Moved:          "the kubeconfig leads elsewhere than planned",
	fleet.Locked:         "locked by another run",
	fleet.WebhookTimeout: "a webhook did not answer in time",
	fleet.Timeout:        "took too long",
	fleet.Forbidden:      "rights are missing",
	fleet.BadPlan:        "the plan is wrong there",
	fleet.Lost:           "who worked on it is gone",
	fleet.StepFailed:     "failed",
}

// CauseTitle says in a few words why clusters failed, and where: failed at step chart.
func CauseTitle(c *fleet.Cause) string {
	return words.Join(" at step ", cmp.Or(classes[c.Class], words.Line(string(c.Class)), "failed"), words.Line(c.Step))
}

// CauseText is CauseTitle with the error.
func CauseText(c *fleet.Cause) string { return words.Join(": ", CauseTitle(c), words.Line(c.Text)) }

// waits says what clusters wait for; several groups are of one webhook, for several causes.
func waits(groups []fleet.Group) string {
	h := groups[0].Hold
	head := "webhook " + cmp.Or(words.Line(h.Webhook), "that the API server did not name")
	if h.Service != "" {
		head += " (Service " + words.Line(h.Service) + ")"
	}
	if n := members(groups); n > 1 {
		head = fmt.Sprintf("%d clusters wait for %s", n, head)
	} else {
		head = "1 cluster waits for " + head
	}
	if len(groups) == 1 {
		return words.Join(": ", head, words.Line(h.Cause))
	}
	causes := make([]string, len(groups))
	for i, g := range groups {
		causes[i] = fmt.Sprintf("%d %s", len(g.Clusters), cmp.Or(words.Line(g.Hold.Cause), "for no known cause"))
	}
	return head + ": " + words.List(causes, 3)
}

// members is how many clusters groups have.
func members(groups []fleet.Group) int {
	n := 0
	for _, g := range groups {
		n += len(g.Clusters)
	}
	return n
}

// HoldText says how many clusters wait for which webhook, and why: 47 clusters wait for
// webhook vmalerts.example.com (Service monitoring/operator): no endpoints.
func HoldText(g fleet.Group) string { return waits([]fleet.Group{g}) }

// holdsByWebhook are the groups of clusters that are held, those of one webhook together.
func holdsByWebhook(x *fleet.Execution) [][]fleet.Group {
	var all [][]fleet.Group
	for _, g := range x.Holds() {
		i := slices.IndexFunc(all, func(a []fleet.Group) bool {
			return a[0].Hold.Webhook == g.Hold.Webhook && a[0].Hold.Service == g.Hold.Service
		})
		if i < 0 {
			i, all = len(all), append(all, nil)
		}
		all[i] = append(all[i], g)
	}
	return all
}

// StopText says why nothing new starts.
func StopText(s *fleet.Stop) string {
	if s == nil {
		return "stopped"
	}
	by := words.Prefixed(" by ", words.Line(s.By))
	switch s.Kind {
	case fleet.StopFailures:
		return fmt.Sprintf("wave %s: %s failed, %d may", s.Wave, words.Count(s.Failed, "cluster"), s.Allowed)
	case fleet.StopCause:
		text := fmt.Sprintf("%s failed of one cause, %d may", words.Count(s.Failed, "cluster"), s.Allowed)
		if s.Cause != nil {
			text += ": " + CauseText(s.Cause)
		}
		return text
	case fleet.StopUnreachable:
		return fmt.Sprintf("%s out of reach, %d may be", words.Count(s.Failed, "cluster"), s.Allowed)
	case fleet.StopAborted, fleet.StopInterrupted:
		return s.Kind + by
	}
	return words.Line(s.Kind) + by
}

// stateWord is how people read a state.
func stateWord[S ~string](s S) string { return strings.ReplaceAll(string(s), "_", " ") }

// CountsText says how many clusters are in which state; those in the states left out are
// not counted.
func CountsText(n map[fleet.State]int, without ...fleet.State) string {
	var parts []string
	for _, s := range fleet.States {
		if n[s] > 0 && !slices.Contains(without, s) {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], stateWord(s)))
		}
	}
	return strings.Join(parts, ", ")
}

// over is how many of the clusters are over.
func over(n map[fleet.State]int) int {
	sum := 0
	for s, k := range n {
		if s.Over() {
			sum += k
		}
	}
	return sum
}

// Took is how long the plan was at work on a cluster; zero if it never was.
func Took(c *fleet.ClusterStatus, now time.Time) time.Duration {
	switch {
	case c.Result != nil && !c.Result.Started.IsZero() && !c.Result.Ended.IsZero():
		return max(c.Result.Ended.Sub(c.Result.Started), 0)
	case c.Started.IsZero():
		return 0
	case c.State.Over():
		now = c.Since
	}
	return max(now.Sub(c.Started), 0)
}

// WaveTook is how long clusters of a wave were at work at a time, from the first one's begin
// to the last one's end: in this round, or in an earlier one if none was in this.
func WaveTook(x *fleet.Execution, w *fleet.WaveStatus, now time.Time) time.Duration {
	var from, to time.Time
	earlier := !slices.ContainsFunc(w.Members, func(c *fleet.ClusterStatus) bool { return !c.Started.Before(x.Started) })
	for _, c := range w.Members {
		if c.Started.IsZero() || c.Started.Before(x.Started) && !earlier {
			continue
		}
		end := now
		if c.State.Over() {
			end = c.Since
		}
		if from.IsZero() || c.Started.Before(from) {
			from = c.Started
		}
		if end.After(to) {
			to = end
		}
	}
	return max(to.Sub(from), 0)
}

// Note says what there is to say of a cluster: why it failed, what it waits for, or at
// which step it is.
func Note(c *fleet.ClusterStatus) string {
	switch {
	case c.State == fleet.Holding && c.Hold != nil:
		return words.Join(": ", words.Count(c.Hold.Requests, "request")+" held for webhook "+words.Line(c.Hold.Webhook), words.Line(c.Hold.Cause))
	case c.State.Active():
		at := ""
		if c.Progress.Total > 0 {
			at = fmt.Sprintf("%d/%d", c.Progress.Done, c.Progress.Total)
		}
		return words.Join(": ", words.Join(" ", at, words.Line(c.Progress.Step)), words.Line(c.Progress.Message))
	case c.Result == nil:
		return ""
	case c.State.Good() && c.Result.HeldSeconds > 0:
		return "held " + words.Brief(time.Duration(c.Result.HeldSeconds*float64(time.Second)))
	}
	return ErrorText(c)
}

// ErrorText is the error of a cluster that failed, after its step.
func ErrorText(c *fleet.ClusterStatus) string {
	r := c.Result
	if r == nil {
		return ""
	}
	text, step := words.Line(r.Error), ""
	if r.Cause != nil {
		text = cmp.Or(text, words.Line(r.Cause.Text))
		if r.Cause.Step != "" {
			step = fmt.Sprintf("step %q", words.Line(r.Cause.Step))
		}
	}
	return words.Join(": ", step, text)
}
