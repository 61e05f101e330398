package object_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/plan"
)

const run = object.Run("20261122-161030-3a12cd")

// specOf is a run of waves of so many clusters.
func specOf(sizes ...int) *object.Spec {
	r := &fleet.Rollout{Version: fleet.RolloutVersion, Fleet: "edge", Plan: "small"}
	for i, n := range sizes {
		w := fleet.WaveInfo{Name: fmt.Sprint("wave-", i), Parallel: 50, Clusters: n}
		r.Waves = append(r.Waves, w)
		for k := range n {
			r.Clusters = append(r.Clusters, fleet.Cluster{
				Name: fmt.Sprintf("prod/cluster-%d-%04d", i, k), Wave: w.Name, Server: fmt.Sprintf("https://10.%d.%d.%d:6443", i, k/250, k%250), CA: strings.Repeat("ab12", 16),
				Labels: map[string]string{"region": fmt.Sprint("region-", k%7), "cluster.x-k8s.io/cluster-name": fmt.Sprint("cluster-", k), "ring": fmt.Sprint(i)},
				Vars:   map[string]any{"region": fmt.Sprint("region-", k%7), "name": fmt.Sprint("cluster-", k)},
				Access: fleet.Access{Secret: &plan.KeyRef{Namespace: "prod", Name: fmt.Sprintf("cluster-%d-%04d-kubeconfig", i, k), Key: "value"}},
			})
		}
	}
	r.Seal()
	return &object.Spec{Run: run, Rollout: r, Engine: fleet.KubernetesEngine{Namespace: "kplan", Image: "kplan:1"}, Grace: 60, Began: time.Now()}
}

// A rollout that was written is read as it was, however many clusters it has, and one that
// was changed is refused.
func TestRollouts(t *testing.T) {
	s := specOf(3, 2000)
	root, waves, err := s.Rollouts()
	require.NoError(t, err)
	size := 0
	for _, m := range append(waves, root) {
		require.True(t, *m.Immutable)
		require.Empty(t, validation.IsDNS1123Subdomain(m.Name))
		for _, b := range m.BinaryData {
			size = max(size, len(b))
		}
	}
	t.Logf("2,000 clusters have %d KiB", size>>10)
	require.Less(t, size, 700<<10)
	read, err := object.ReadSpec(root)
	require.NoError(t, err)
	var parts [][]object.Member
	for i, m := range waves {
		part, err := object.ReadClusters(m, read.Parts[i])
		require.NoError(t, err)
		parts = append(parts, part)
	}
	require.Contains(t, parts[1][7].Own, "cluster-7")
	require.NotContains(t, parts[1][7].Own, "region-0")
	require.NoError(t, read.Whole(parts))
	require.Equal(t, s.Rollout, read.Rollout)

	_, err = object.ReadClusters(waves[0], read.Parts[1])
	require.ErrorAs(t, err, new(*object.ChangedError))
	parts[0][0].Server = "https://evil.example"
	require.Error(t, read.Whole(parts))
	root.BinaryData["spec.json.gz"] = []byte("no gzip")
	_, err = object.ReadSpec(root)
	require.ErrorContains(t, err, "reading ConfigMap kplan/"+string(run)+"-rollout")
}

// The pods of a wave have no rights on their node, and no end of one of them ends the Job.
func TestWaveJob(t *testing.T) {
	s := specOf(40)
	_, _, err := s.Rollouts()
	require.NoError(t, err)
	s.Parallel = 7
	j := s.WaveJob(0, 2, object.Indexes{1, 2, 3, 9})
	require.Equal(t, string(run)+"-w0-r2", j.Name)
	require.Equal(t, "1-3,9", j.Annotations[object.AnnotationClusters])
	require.EqualValues(t, 4, *j.Spec.Completions)
	require.EqualValues(t, 4, *j.Spec.Parallelism)
	require.True(t, *j.Spec.Suspend)
	require.Nil(t, j.Spec.MaxFailedIndexes, "it would delete running pods")
	require.Nil(t, j.Spec.SuccessPolicy)
	require.Nil(t, j.Spec.ActiveDeadlineSeconds)
	require.Equal(t, batchv1.Failed, *j.Spec.PodReplacementPolicy)
	for _, r := range j.Spec.PodFailurePolicy.Rules {
		require.NotEqual(t, batchv1.PodFailurePolicyActionFailJob, r.Action, "it would delete running pods")
	}
	pod := j.Spec.Template.Spec
	require.Equal(t, corev1.RestartPolicyNever, pod.RestartPolicy)
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.True(t, *pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, []corev1.Capability{"ALL"}, pod.Containers[0].SecurityContext.Capabilities.Drop)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.EqualValues(t, 7, *s.WaveJob(0, 1, make(object.Indexes, 40)).Spec.Parallelism)
}

// Nobody may list Secrets, and workers may get those of the fleet's clusters alone.
func TestGrant(t *testing.T) {
	s := specOf(2, 1)
	for _, runs := range [][]object.Run{nil, {run}} {
		secrets := 0
		for _, o := range (object.Grant{Fleet: "edge", Engine: s.Engine, Clusters: s.Rollout.Clusters, Runs: runs, Rounds: 1, Waves: 2}).Objects() {
			role, is := o.(*rbacv1.Role)
			if !is {
				continue
			}
			for _, rule := range role.Rules {
				require.NotContains(t, rule.Verbs, "*")
				require.NotContains(t, rule.Resources, "pods/log")
				if rule.Resources[0] == "secrets" {
					secrets++
					require.Equal(t, []string{"get"}, rule.Verbs)
					require.Len(t, rule.ResourceNames, 3)
				}
				if runs != nil && (rule.Resources[0] == "configmaps" || len(rule.Verbs) > 0 && rule.Verbs[0] == "get") {
					require.NotEmpty(t, rule.ResourceNames, "%v", rule)
				}
			}
		}
		require.Equal(t, 1, secrets)
	}
}

// Results of failures that have no room are cut short, and none is lost.
func TestSaved(t *testing.T) {
	saved := object.Saved{Clusters: map[string]object.Outcome{}}
	for i := range 2000 {
		var text strings.Builder
		for k := range 300 { // that does not pack well
			fmt.Fprintf(&text, "%x", (i*7919+k*104729)*2654435761)
		}
		saved.Clusters[fmt.Sprint("c", i)] = object.Outcome{State: fleet.Failed, Round: 1, Result: &fleet.Result{State: fleet.Failed, Error: text.String()[:1500], Hint: "h"}}
	}
	m, err := specOf(1).ResultsMap(saved)
	require.NoError(t, err)
	require.Less(t, len(m.BinaryData["results.json.gz"]), 1<<20)
	read, err := object.ReadSaved(m)
	require.NoError(t, err)
	require.Len(t, read.Clusters, 2000)
	require.NotEmpty(t, read.Clusters["c7"].Result.Error)
}

func TestOrders(t *testing.T) {
	o := object.Orders{Round: 3, Control: fleet.Control{Paused: true, Approved: []string{"rest"}, Stop: &fleet.Stop{Kind: fleet.StopAborted}}}
	m := specOf(1).ControlMap(o)
	read, err := object.ReadOrders(m)
	require.NoError(t, err)
	require.Equal(t, o, read)
	m.Data["round"] = "0"
	_, err = object.ReadOrders(m)
	require.Error(t, err)
}

// Indexes are read as they were written.
func TestIndexes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want object.Indexes
		for i := range 40 {
			if rapid.Bool().Draw(t, "has") {
				want = append(want, i)
			}
		}
		got, err := object.ParseIndexes(want.String(), 40)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	for _, bad := range []string{"x", "1-", "3-1", "40", "-1", "1,,2", "1-50"} {
		_, err := object.ParseIndexes(bad, 40)
		require.Error(t, err, bad)
	}
}

func TestFleetLabel(t *testing.T) {
	for _, name := range []string{"edge", "A fleet of many words", "ünï", strings.Repeat("long-", 30), "-"} {
		require.Empty(t, validation.IsValidLabelValue(object.FleetLabel(name)), name)
		require.NotEmpty(t, object.FleetLabel(name))
	}
	require.NotEqual(t, object.FleetLabel("a b"), object.FleetLabel("a-b"))
}

func TestCheck(t *testing.T) {
	good := fleet.KubernetesEngine{Tolerations: []map[string]any{{"key": "edge", "operator": "Exists"}}, Resources: &fleet.Resources{Requests: map[string]string{"cpu": "100m"}}}
	require.NoError(t, object.Check(good))
	good.Resources.Limits = map[string]string{"memory": "much"}
	require.ErrorContains(t, object.Check(good), "engine.kubernetes.resources.limits.memory")
	require.ErrorContains(t, object.Check(fleet.KubernetesEngine{Tolerations: []map[string]any{{"tolerationSeconds": "x"}}}), "tolerations")
	for _, r := range []object.Run{"", "x", "20261122-161030-3A", object.Run(strings.Repeat("1", 70))} {
		require.Error(t, r.Check(), r)
	}
	require.NoError(t, run.Check())
	_, err := json.Marshal(specOf(1))
	require.NoError(t, err)
}
