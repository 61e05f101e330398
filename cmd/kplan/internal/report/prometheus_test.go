package report

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/runner"
)

// TestPrometheusIsWellFormed reads the metrics of every recorded run, and of one whose texts
// try to be more than text, as Prometheus does, and has them judged by its linter. Like
// node_exporter it takes no time stamps.
func TestPrometheusIsWellFormed(t *testing.T) {
	runs := recorded(t)
	maps.Copy(runs, oddRuns())
	for name, l := range runs {
		t.Run(name, func(t *testing.T) {
			text := write(t, Prometheus, l, meta)
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
			require.NoError(t, err)
			require.Contains(t, families, "kplan_run_success")
			for _, f := range families {
				require.NotEmpty(t, f.GetHelp(), f.GetName())
				seen := map[string]bool{}
				for _, m := range f.Metric {
					require.Nil(t, m.TimestampMs)
					id := ""
					for _, p := range m.Label {
						id += p.GetName() + "=" + p.GetValue() + "\x00"
					}
					require.False(t, seen[id], "%s twice: %q", f.GetName(), id)
					seen[id] = true
				}
			}
			problems, err := promlint.New(bytes.NewReader(text)).Lint()
			require.NoError(t, err)
			require.Empty(t, problems)
		})
	}
}

// TestPrometheusFile can be read by the user of node_exporter, which is another one.
func TestPrometheusFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kplan.prom")
	r := &Files{Files: []File{{Kind: Prometheus, Path: file}}}
	r.Observe(runner.Event{Seq: 1, Time: time.Now(), Type: runner.TypePlan, Plan: "p", Steps: []runner.StepInfo{{Name: "a"}}})
	require.NoError(t, r.Close())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(b), "# HELP kplan_run_info "))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
}
