package watch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// Whoever may not read definitions waits for kinds all the same, by discovery.
func TestAwaitWithFewRights(t *testing.T) {
	t.Parallel()
	for name, definition := range map[string]string{"a known definition": "gizmos.", "an unknown definition": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := onLab(t, nil)
			group := "g" + admin.namespace + ".kplan.dev"
			b := admin.as(t, rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
			if definition != "" {
				definition += group
			}
			gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Gizmo"}
			b.Expect = func(context.Context, schema.GroupVersionKind) kinds.Prospect {
				return kinds.Prospect{Comes: true, Definition: definition, Why: "somebody brings it"}
			}
			missing, err := Missing(t.Context(), b.Session, gvk, configMap)
			require.NoError(t, err)
			require.Len(t, missing, 1)

			last := ""
			err = Await(bounded(t), b.Session, told(func(message string) {
				if last == "" {
					admin.define(t, group)
				}
				last = message
			}), missing[0])

			require.NoError(t, err)
			require.Equal(t, "waits for kind Gizmo ("+group+"/v1) to be served: somebody brings it", last)
			_, err = b.Cluster.Mapping(t.Context(), gvk)
			require.NoError(t, err)
		})
	}
}

// A kind that nobody announced is awaited when the cluster has its definition,
// and fails at once otherwise.
func TestMissing(t *testing.T) {
	t.Parallel()
	b := onLab(t, nil)
	group := "g" + b.namespace + ".kplan.dev"
	gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Gizmo"}

	_, err := Missing(t.Context(), b.Session, gvk)
	require.True(t, meta.IsNoMatchError(err))

	b.define(t, group)
	missing, err := Missing(t.Context(), b.Session, gvk)
	require.NoError(t, err)
	for _, m := range missing { // none where it is served already
		require.NoError(t, Await(bounded(t), b.Session, told(func(string) {}), m))
	}

	b.Expect = func(context.Context, schema.GroupVersionKind) kinds.Prospect {
		return kinds.Prospect{Why: "it is of another version"}
	}
	_, err = Missing(t.Context(), b.Session, gvk.GroupKind().WithVersion("v2"))
	require.ErrorContains(t, err, "it is of another version")
	require.True(t, runner.IsPermanent(err))
	require.True(t, meta.IsNoMatchError(err))
}

// The wait for a kind that never comes ends with the step's time.
func TestAwaitIsBounded(t *testing.T) {
	t.Parallel()
	b := onLab(t, nil)
	const after = 500 * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(t.Context(), after, &runner.TimeoutError{After: after})
	defer cancel()

	err := Await(ctx, b.Session, told(func(string) {}), Awaited{schema.GroupVersionKind{Group: "g.kplan.dev", Version: "v1", Kind: "Gizmo"}, kinds.Prospect{}})

	timeout := (*runner.TimeoutError)(nil)
	require.ErrorAs(t, err, &timeout)
	require.Equal(t, "kind Gizmo (g.kplan.dev/v1) to be served", timeout.For)
	require.Equal(t, "the cluster has no CustomResourceDefinition of it", timeout.Last)
	require.NotEmpty(t, runner.HintOf(err))
}

// told is a reporter that takes messages.
type told func(string)

func (f told) Report(r runner.Report) { f(r.Message) }
