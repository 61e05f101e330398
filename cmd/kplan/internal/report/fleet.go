package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// FleetKinds are the kinds of reports of a fleet's run.
var FleetKinds = []Kind{HTML, JUnit, Markdown, JSON}

// Fleet is the run of a fleet, as it is reported.
type Fleet struct {
	*fleet.Execution
	Meta Meta
	// Events returns what happened in a cluster's own run. It fails with fs.ErrNotExist when
	// nothing is known of that; nil knows nothing of any.
	Events func(cluster string) ([]runner.Event, error)
}

// WriteFleet writes the report of a kind. It returns the first error of writing.
func WriteFleet(w io.Writer, k Kind, f *Fleet) error {
	switch k {
	case JUnit:
		return writeFleetJUnit(w, f)
	case JSON:
		return writeFleetJSON(w, f)
	case Markdown:
		_, err := w.Write(FleetMarkdown(f, MarkdownLimit))
		return err
	case HTML:
		return writeFleetHTML(w, f, nil)
	case OTLP, Prometheus:
	}
	return fmt.Errorf("there is no report kind %q of a fleet", string(k))
}

// timeline is what is known of a cluster's own run; nil when nothing is.
func (f *Fleet) timeline(cluster string) (*timeline.Timeline, error) {
	if f.Events == nil {
		return nil, nil
	}
	events, err := f.Events(cluster)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(events) == 0:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cluster %s: %w", cluster, err)
	}
	t := &timeline.Timeline{}
	for _, e := range events {
		t.Apply(e)
	}
	return t, nil
}

// elapsed is how long the round took.
func (f *Fleet) elapsed() time.Duration { return max(f.Last.Sub(f.Started), 0) }

// ended reports whether the round has ended.
func (f *Fleet) ended() bool { return f.State != "" && f.State != fleet.Running }

// fleetGlyphs stand beside the words of states of clusters, and waveGlyphs of waves.
var (
	fleetGlyphs = map[fleet.State]string{
		fleet.Succeeded: "✓", fleet.Unchanged: "=", fleet.Failed: "✗", fleet.Cancelled: "■", fleet.NotStarted: "⊘", fleet.Holding: "‖",
		fleet.Running: "▶", fleet.Pending: "·",
	}
	waveGlyphs = map[fleet.WaveState]string{
		fleet.WavePending: "·", fleet.WaveApproval: "?", fleet.WaveRunning: "▶", fleet.WaveSoaking: "~", fleet.WaveSucceeded: "✓",
		fleet.WaveFailed: "✗", fleet.WaveNotStarted: "⊘",
	}
)

// said is a state as people read it.
func said[S ~string](s S) string { return line(strings.ReplaceAll(string(s), "_", " ")) }

// fleetCount is how many clusters are in a state.
type fleetCount struct {
	State fleet.State
	N     int
}

func fleetCounts(n map[fleet.State]int) []fleetCount {
	var all []fleetCount
	for _, s := range fleet.States {
		if n[s] > 0 {
			all = append(all, fleetCount{s, n[s]})
		}
	}
	return all
}
