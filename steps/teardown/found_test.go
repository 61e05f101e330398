package teardown

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// An object that the plan applies goes only if nobody else has to do with it.
func TestSort(t *testing.T) {
	t.Parallel()
	made := time.Now().Add(-time.Hour).Truncate(time.Second)
	by := func(manager string, operation metav1.ManagedFieldsOperationType, after time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Time: &metav1.Time{Time: made.Add(after)}}
	}
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	own := by("kplan", apply, 0)
	for name, tt := range map[string]struct {
		managers          []metav1.ManagedFieldsEntry
		recorded, created bool
		stays             string
	}{
		"made by the plan": {managers: []metav1.ManagedFieldsEntry{own}, recorded: true, created: true},
		"nobody remembers": {managers: []metav1.ManagedFieldsEntry{own}},
		"was there before": {managers: []metav1.ManagedFieldsEntry{own}, recorded: true, stays: "it was there before the plan applied it first"},
		"made by the plan, and applied by another since":  {managers: []metav1.ManagedFieldsEntry{own, by("argocd-controller", apply, time.Minute)}, recorded: true, created: true, stays: "argocd-controller applies it too"},
		"applied by another":                              {managers: []metav1.ManagedFieldsEntry{own, by("argocd-controller", apply, time.Minute)}, stays: "argocd-controller applies it too"},
		"made by the plan in the second of a tool's edit": {managers: []metav1.ManagedFieldsEntry{own, by("kubectl-edit", update, 0)}, recorded: true, created: true},
		"made by a tool":                                  {managers: []metav1.ManagedFieldsEntry{by("kubectl-create", update, 0), own}, stays: "it was made by kubectl-create"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "ns"}}}
			u.SetCreationTimestamp(metav1.Time{Time: made})
			u.SetManagedFields(tt.managers)
			before := map[string]bool{}
			if tt.recorded {
				before["ConfigMap/ns/a"] = tt.created
			}
			l, f := &look{Config: Config{Plan: &plan.Plan{}}}, &found{}

			require.NoError(t, l.sort(t.Context(), nil, f, removal.Object{Unstructured: u}, before))

			if tt.stays == "" {
				require.Len(t, f.goes, 1)
				require.Empty(t, f.kept)
				return
			}
			require.Empty(t, f.goes)
			require.Equal(t, []Kept{{Object: "ConfigMap/ns/a", Reason: tt.stays}}, f.kept)
		})
	}
}
