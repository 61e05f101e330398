package report

import (
	"bytes"
	"io"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/runner"
)

// writePrometheus writes metrics of the run in Prometheus' text format. All are gauges: a
// file tells of one run, and that of the next begins anew. None has a time stamp, which
// node_exporter refuses; when the run ended is a metric.
func writePrometheus(w io.Writer, r *run) error {
	var m metrics
	plan := label{"plan", r.x.Plan()}
	m.run(r, plan)
	for _, s := range r.Steps() {
		m.step(r, s, label{"plan", r.x.Plan()}, label{"step", s.Name}, label{"kind", s.Kind}, label{"cluster", s.Cluster})
	}
	for _, l := range r.Webhooks() {
		of := []label{plan, {"cluster", l.Cluster}, {"configuration", l.Configuration}, {"webhook", l.Name}, {"service", l.Service}, {"kind", l.Kind}}
		m.add("kplan_webhook_held_requests", "Requests that the webhook held, in all.", float64(l.Requests), of...)
		m.add("kplan_webhook_failed_requests", "Requests that the webhook held and that were given up.", float64(l.Failed), of...)
		m.add("kplan_webhook_hold_seconds", "Time with at least one request held for the webhook.", l.HoldTime(r.end).Seconds(), of...)
		m.add("kplan_webhook_hold_longest_seconds", "Longest time that one request was held for the webhook.", l.LongestAt(r.end).Seconds(), of...)
	}
	var b bytes.Buffer
	for _, f := range m.families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// label is a name with its value.
type label struct{ name, value string }

// metrics collects the values of each metric, in the order in which they were met.
type metrics struct {
	families []*dto.MetricFamily
	byName   map[string]*dto.MetricFamily
	seen     map[string]bool // names with labels
}

// run adds the metrics of the run as a whole.
func (m *metrics) run(r *run, plan label) {
	state := r.state()
	m.add("kplan_run_info", "The run that this file tells of, and the kplan that wrote it: always 1.", 1, plan, label{"run", r.Run()}, label{"version", r.meta.Version})
	m.add("kplan_run_success", "Whether the run succeeded.", truth(state == runner.StateSucceeded), plan)
	for _, s := range []runner.State{runner.StateSucceeded, runner.StateFailed, runner.StateCancelled, runner.StateRunning} {
		m.add("kplan_run_state", "Whether the run ended in the state; running is one that was recorded only in part.", truth(s == state), plan, label{"state", string(s)})
	}
	m.add("kplan_run_start_timestamp_seconds", "When the run began, in Unix time.", unix(r.Start().UnixMilli()), plan)
	if r.Ended() {
		m.add("kplan_run_end_timestamp_seconds", "When the run ended, in Unix time.", unix(r.end.UnixMilli()), plan)
	}
	m.add("kplan_run_duration_seconds", "How long the run took.", r.elapsed().Seconds(), plan)
	counts := r.x.Counts()
	for _, s := range runner.States {
		m.add("kplan_run_steps", "Steps of the run by the state that they ended in.", float64(counts[s]), plan, label{"state", string(s)})
	}
}

// step adds the metrics of a step. One that never started has a state alone.
func (m *metrics) step(r *run, s *timeline.Step, of ...label) {
	m.add("kplan_step_state", "The state that the step ended in, as a label: always 1.", 1, append(slices.Clip(of), label{"state", string(stateOf(s))})...)
	if s.Started.IsZero() {
		return
	}
	m.add("kplan_step_duration_seconds", "How long the step took, with waits for webhooks and for further attempts.", s.Elapsed(r.end).Seconds(), of...)
	m.add("kplan_step_attempts", "Attempts at the step.", float64(s.Attempt), of...)
	m.add("kplan_step_hold_seconds", "Time with at least one request of the step held.", s.HoldTime(r.end).Seconds(), of...)
	m.add("kplan_step_group_wait_seconds", "Time that the step waited for its concurrency group.", s.GroupWait(r.end).Seconds(), of...)
}

// add adds a value. Labels without a value are left out, as Prometheus takes them to be the
// same. Of two values with the same labels the first is kept: with both, the file could not
// be read.
func (m *metrics) add(name, help string, value float64, labels ...label) {
	f := m.byName[name]
	if f == nil {
		f = &dto.MetricFamily{Name: &name, Help: &help, Type: dto.MetricType_GAUGE.Enum()}
		if m.byName == nil {
			m.byName, m.seen = map[string]*dto.MetricFamily{}, map[string]bool{}
		}
		m.byName[name], m.families = f, append(m.families, f)
	}
	var id strings.Builder
	id.WriteString(name)
	metric := &dto.Metric{Gauge: &dto.Gauge{Value: &value}}
	for _, l := range labels {
		if text := labelText(l.value); text != "" {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &l.name, Value: &text})
			id.WriteString("\x00" + l.name + "\x00" + text)
		}
	}
	if m.seen[id.String()] {
		return
	}
	m.seen[id.String()] = true
	f.Metric = append(f.Metric, metric)
}

// labelText is the text of a label, at most 200 letters of it.
func labelText(s string) string {
	const letters, bytes = 200, 4 << 10
	if len(s) > bytes {
		s = s[:bytes]
	}
	return shorten(strings.TrimSpace(line(s)), letters)
}

// truth is a value that is yes or no.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// unix is Unix time in seconds, of milliseconds.
func unix(ms int64) float64 { return float64(ms) / 1000 }
