package steps_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// A step that fails after Helm has recorded a revision tells which one; a chart that
// does not render has made none.
func TestHelmStepTellsTheRevisionThatFailed(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	templates := map[string]string{"fault.yaml": `{{ if eq .Values.fault "render" }}{{ fail "as asked" }}{{ end }}`}
	maps.Copy(templates, brokenService)
	chart := chartOf(t, templates)
	for _, tt := range []struct {
		values string
		want   int
	}{
		{"{broken: true, fault: none}", 1},
		{"{broken: true, fault: other}", 2},
		{"{broken: false, fault: render}", 0},
	} {
		out := runPlan(t, lab, ns, "\n- name: s\n  timeout: 3m\n  helm: {chart: "+chart+", release: NS, namespace: NS, values: "+tt.values+"}\n")
		require.Error(t, out.err)
		require.Equal(t, tt.want, out.execution.Step("s").Revision, tt.values)
	}
}

// canceller stops a run when it sees an object told of.
type canceller struct {
	cancel context.CancelCauseFunc
	object string
}

func (c *canceller) Observe(e runner.Event) {
	if strings.HasPrefix(e.Object, c.object) {
		c.cancel(errors.New("stopped by the test"))
	}
}

// A step that is stopped while it waits for what it sent tells its revision too.
func TestHelmStepTellsTheRevisionThatWasStopped(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t) // runs no pods: a Deployment is never ready
	ns := lab.Namespace(t)
	cleanUp(t, lab, ns)
	chart := chartOf(t, map[string]string{"web.yaml": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: none}]}
`})
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: test}\nsteps:\n"+
		"- {name: s, timeout: 3m, helm: {chart: "+chart+", release: "+ns+", namespace: "+ns+"}}\n"), 0o600))
	p, err := load.File(file, load.Options{})
	require.NoError(t, err)
	s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test"})
	require.NoError(t, err)
	defer s.Close()

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	x, err := (&runner.Runner{Resolve: s.Resolve, Observers: []runner.Observer{&canceller{cancel, "Deployment/"}}}).Run(ctx, p)
	require.Error(t, err)
	require.Equal(t, runner.StateCancelled, x.Step("s").State)
	require.Equal(t, 1, x.Step("s").Revision)
}
