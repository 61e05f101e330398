package helm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// log is a reporter that keeps nothing.
type log struct{}

func (log) Report(runner.Report) {}

// The cleanup ends before the runner gives the action up, whatever it waits
// for, and leaves a release that can be worked on.
func TestUndoIsBounded(t *testing.T) {
	t.Parallel()
	require.Less(t, cleanup+record, runner.DefaultGrace-5*time.Second)
	for name, tc := range map[string]struct{ template, says string }{
		"an object": {"", "waiting for deployment/d"},
		"a hook": {`{apiVersion: batch/v1, kind: Job, metadata: {name: j, annotations: {helm.sh/hook: pre-rollback}},
  spec: {template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}}`, "waiting for job/j"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			undoIsBounded(t, tc.template, tc.says)
		})
	}
}

// undoIsBounded fails an upgrade of a chart with one more template; says is in the
// rollback's error.
func undoIsBounded(t *testing.T, template, says string) {
	t.Helper()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	api, err := cluster.Connect(t.Context(), lab.Flags(), "kplan-test")
	require.NoError(t, err)
	session, err := api.Session(cluster.Options{})
	require.NoError(t, err)
	// Nobody runs the pods of this lab: a rollback to it waits for ever.
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: never\nversion: 0.1.0\n",
		"templates/d.yaml": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 1, selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: "x:{{ .Values.tag | default 1 }}"}]}}}}`,
		"templates/more.yaml": template,
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	stepOf := func(wait plan.WaitFor, values map[string]any) *Action {
		c, err := charts.New(plan.Step{Name: "never", Helm: &plan.Helm{
			Chart: dir, Namespace: ns, Wait: wait, OnFailure: plan.RollbackRelease, Values: values,
		}}, ns, nil)
		require.NoError(t, err)
		return New(c, session.Cluster.Namespace(), Options{})
	}
	require.NoError(t, stepOf(plan.WaitNone, nil).Run(t.Context(), session, log{}))

	// The step's time was over long ago: there are six seconds left.
	timeout := &runner.TimeoutError{After: time.Minute}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, timeout)
	defer cancel()
	began := time.Now()
	a := stepOf(plan.WaitReady, map[string]any{"tag": 2})
	ch, err := a.Source.Load(ctx)
	require.NoError(t, err)
	o, err := a.prepare(ctx, session, log{}, ch, a.Spec.Values)
	require.NoError(t, err)
	_, failure := o.install()
	require.Error(t, failure)
	o.ctx, cancel = context.WithDeadlineCause(t.Context(), time.Now().Add(6*time.Second-cleanup), timeout)
	defer cancel()

	err = o.failed(failure)

	require.Less(t, time.Since(began), 40*time.Second)
	require.ErrorContains(t, err, "waiting for deployment/d")
	_, undoing, failed := strings.Cut(err.Error(), "rolling back to revision 1 failed")
	require.True(t, failed, "%v", err)
	require.Contains(t, undoing, says)
	require.True(t, errors.Is(err, failure), "the first failure is not lost")
	all, err := o.history(t.Context(), o.connection)
	require.NoError(t, err)
	last := all.last()
	require.Equal(t, 3, last.Version)
	require.Equal(t, engine.StatusFailed, last.Info.Status, "not pending: the next run can go on")
}
