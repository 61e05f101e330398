package examples_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/diff"
)

// requireNothingToDo requires that a run of a plan would change nothing, but for the
// fields of an object that are named.
func requireNothingToDo(t *testing.T, s *steps.Steps, but ...diff.Field) {
	t.Helper()
	d, err := s.Diff(t.Context(), runner.DefaultParallel, func(diff.Step) {})
	require.NoError(t, err)
	var found []diff.Field
	for _, step := range d.Steps {
		for _, o := range step.Objects {
			require.True(t, o.Drift, "%s: %s: %+v", step.Name, o.Object, o)
			found = append(found, o.Fields...)
		}
		if len(step.Objects) == 0 {
			require.Contains(t, []diff.State{diff.Unchanged, diff.Skipped}, step.State, "%s: %s", step.Name, step.Message)
		}
	}
	require.Equal(t, but, found)
}

// changeByHand changes a Deployment of a plan's first release that has one, as kubectl
// edit does, and returns what a diff is to say of it.
func changeByHand(t *testing.T, lab *labtest.Lab, p *plan.Plan) []diff.Field {
	t.Helper()
	for _, s := range p.Steps {
		if s.Helm == nil || s.Cluster != "" || s.Skip != "" {
			continue
		}
		all := lab.Clientset(t).AppsV1().Deployments(s.Helm.Namespace)
		list, err := all.List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=Helm"})
		require.NoError(t, err)
		for _, d := range list.Items {
			if d.Annotations["meta.helm.sh/release-name"] != s.ReleaseName() {
				continue
			}
			_, err := all.Patch(t.Context(), d.Name, types.StrategicMergePatchType,
				[]byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"hand"}}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
			require.NoError(t, err)
			return []diff.Field{{Path: `metadata.labels["app.kubernetes.io/managed-by"]`, Before: "hand", After: "Helm", Manager: "kubectl-edit"}}
		}
	}
	return nil
}
