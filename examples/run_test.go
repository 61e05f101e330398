package examples_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// Each example runs to its end on a real node, with the lab's stand-in charts:
// no step fails, and each chart is installed by its first attempt.
func TestPlansRun(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	for _, tt := range []struct {
		file       string
		in         plan.Inputs
		namespaces []string // that the plan makes
	}{
		{
			"eso/plan.yaml",
			plan.Inputs{VarFiles: []string{"../lab/eso.yaml"}},
			[]string{"external-secrets", "registry-credentials", "hello-world", "nodejs-demo", "storage-validator"},
		},
		{"kof/plan.yaml", plan.Inputs{VarFiles: []string{"../lab/kof.yaml"}}, []string{"kof"}},
		{"../lab/race/plan.yaml", plan.Inputs{Set: []string{"listen_delay=5s"}}, []string{"race"}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			p, err := plan.Load(tt.file, tt.in)
			require.NoError(t, err)
			t.Cleanup(func() { undo(t, lab, p, tt.namespaces) })
			s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test"})
			require.NoError(t, err)
			defer s.Close()

			r := runner.Runner{Resolve: s.Resolve}
			x, err := r.Run(t.Context(), p)

			require.NoError(t, err)
			require.Len(t, x.Steps(), len(p.Steps))
			for i, step := range x.Steps() {
				// A test that was killed leaves its releases: then they are unchanged.
				require.True(t, step.State.Good(), "%s: %s %s", step.Name, step.State, step.Error)
				if p.Steps[i].Helm != nil {
					require.Equal(t, 1, step.Attempt, step.Name)
					require.Equal(t, 1, step.Revision, step.Name)
				}
			}
		})
	}
}

// undo takes away what a plan left, so that the next run finds a lab without it.
func undo(t *testing.T, lab *labtest.Lab, p *plan.Plan, namespaces []string) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("what an example made is left behind"))
	defer cancel()
	for _, s := range slices.Backward(p.Steps) {
		if s.Helm == nil {
			continue
		}
		uninstall := action.NewUninstall(helmOf(t, lab, s.Helm.Namespace))
		uninstall.IgnoreNotFound = true
		_, err := uninstall.Run(s.ReleaseName())
		assert.NoError(t, err, s.Name)
	}
	core := lab.Clientset(t).CoreV1()
	err := core.Secrets("default").Delete(ctx, "ghcr-pull-secret", metav1.DeleteOptions{})
	assert.NoError(t, ignoreNotFound(err))
	for _, ns := range namespaces {
		assert.NoError(t, ignoreNotFound(core.Namespaces().Delete(ctx, ns, metav1.DeleteOptions{})), ns)
	}
	for _, ns := range namespaces {
		assert.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := core.Namespaces().Get(ctx, ns, metav1.GetOptions{})
			require.True(c, apierrors.IsNotFound(err), "namespace %s: %v", ns, err)
		}, patience, interval)
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
