package local_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/local"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/internal/labtest/thousand"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// bed is a fleet of a lab's logical clusters, and a run of it.
type bed struct {
	*thousand.Fleet
	dir     string
	rollout *fleet.Rollout
	folder  record.Folder
	run     *record.Run
	members *member.Config
}

func newBed(t *testing.T, clusters int, change func(*fleet.Rollout)) *bed {
	t.Helper()
	b := &bed{Fleet: thousand.New(t, labtest.ControlPlane(t), clusters), dir: t.TempDir()}
	thousand.WritePlan(t, b.dir)
	b.rollout = &fleet.Rollout{Version: fleet.RolloutVersion, Fleet: "edge", Plan: "thousand", Target: "target", Bundle: "sha256:0", Engine: "local"}
	for i, c := range b.Clusters {
		wave := "rest"
		if i < 2 {
			wave = "canary"
		}
		b.rollout.Clusters = append(b.rollout.Clusters, fleet.Cluster{
			Name: "edge/" + c.Name, Wave: wave, Source: fleet.Source{Kind: "capi"}, Vars: map[string]any{"namespace": c.Namespace},
			Access: fleet.Access{Secret: &plan.KeyRef{Namespace: "edge", Name: c.Name + "-kubeconfig"}},
		})
	}
	b.rollout.Waves = []fleet.WaveInfo{{Name: "canary", Parallel: 2, Clusters: 2}, {Name: "rest", Parallel: 8, MaxFailures: clusters, Clusters: clusters - 2}}
	if change != nil {
		change(b.rollout)
	}
	b.rollout.Seal()
	b.folder = record.FolderOf(b.dir)
	var err error
	b.run, err = b.folder.Begin(ledger.NewRunID(), b.rollout, record.Inputs{Plan: filepath.Join(b.dir, "plan.yaml")})
	require.NoError(t, err)
	b.members = &member.Config{
		File: filepath.Join(b.dir, "plan.yaml"), Target: "target", UserAgent: "test", By: "test@here",
		Kubeconfig: func(_ context.Context, c fleet.Cluster) ([]byte, error) { return b.cluster(c.Name).Kubeconfig(), nil },
	}
	return b
}

// cluster is the logical cluster of a name.
func (b *bed) cluster(name string) *thousand.Cluster {
	i := slices.IndexFunc(b.Clusters, func(c *thousand.Cluster) bool { return "edge/"+c.Name == name })
	return b.Clusters[i]
}

// events collects a run's events.
type events struct {
	mu  sync.Mutex
	all []fleet.Event
	did map[string][]runner.Event
}

func (b *bed) engine(t *testing.T) (*local.Engine, *events) {
	t.Helper()
	got := &events{did: map[string][]runner.Event{}}
	return &local.Engine{
		Record: b.run, Members: b.members, By: "test@here",
		Observe: func(e fleet.Event) { got.all = append(got.all, e) },
		Inner: func(cluster string, e runner.Event) {
			got.mu.Lock()
			defer got.mu.Unlock()
			got.did[cluster] = append(got.did[cluster], e)
		},
	}, got
}

const refusedWebhook = `Internal error occurred: failed calling webhook "vx.example.io": failed to call webhook: Post "https://x-webhook.ns.svc:443/validate-x?timeout=2s": dial tcp 10.96.69.10:443: connect: connection refused`

// Each fault is told of its cluster, and clusters that failed alike are one group.
func TestFaults(t *testing.T) {
	t.Parallel()
	b := newBed(t, 40, func(r *fleet.Rollout) {
		for i := range r.Clusters {
			if 26 <= i && i < 28 {
				r.Clusters[i].Vars["hold"] = "2s"
			}
		}
	})
	at := func(from, to int) []*thousand.Cluster { return b.Clusters[from:to] }
	for _, c := range at(2, 5) {
		c.Refuse()
	}
	for _, c := range at(5, 7) {
		c.Pretend()
	}
	for _, c := range at(7, 9) {
		c.Script(thousand.Hang)
	}
	for _, c := range at(9, 12) { // its credentials are renewed in the run
		c.Script(thousand.RotateAt(c, 9))
	}
	for _, c := range at(12, 15) {
		c.Script(thousand.Throttle(3))
	}
	for _, c := range at(15, 18) {
		c.Script(thousand.Webhook("/configmaps/judged", refusedWebhook, 3*time.Second))
	}
	for _, c := range at(18, 20) {
		c.Script(thousand.CutAfterWrite("/configmaps"))
	}
	for _, c := range at(20, 22) {
		c.Script(thousand.CutAfterWrite("/secrets"))
	}
	for _, c := range at(22, 24) { // revoked for good
		c.Script(thousand.Unauthorized)
	}
	for _, c := range at(24, 26) {
		c.Script(thousand.Forbid("/configmaps/applied"))
	}
	for _, c := range at(26, 28) {
		c.Script(thousand.Webhook("/configmaps/judged", refusedWebhook, -1))
	}
	engine, got := b.engine(t)

	x, err := engine.Run(t.Context())

	require.NoError(t, err)
	failed := map[fleet.Class][]string{}
	for _, g := range x.Failures() {
		for _, c := range g.Clusters {
			failed[g.Cause.Class] = append(failed[g.Cause.Class], strings.TrimPrefix(c.Name, "edge/"))
		}
		t.Logf("%d: %+v", len(g.Clusters), *g.Cause)
	}
	require.Len(t, x.Failures(), 6, "each fault is one cause")
	require.Equal(t, map[fleet.Class][]string{
		fleet.Unreachable:    {"c0003", "c0004", "c0005", "c0006", "c0007", "c0008", "c0009"},
		fleet.Refused:        {"c0023", "c0024"},
		fleet.Forbidden:      {"c0025", "c0026"},
		fleet.WebhookTimeout: {"c0027", "c0028"},
	}, failed)
	require.Equal(t, map[fleet.State]int{fleet.Failed: 13, fleet.Succeeded: 27}, x.Counts())
	for _, c := range at(9, 12) {
		require.Equal(t, 2, c.Reads(), "the kubeconfig of %s is read again", c.Name)
	}
	for _, c := range at(15, 18) {
		result := x.Cluster("edge/" + c.Name).Result
		require.Greater(t, result.HeldSeconds, 2.0)
		require.Contains(t, holdsOf(got.all, "edge/"+c.Name), "vx.example.io", "its hold is told at once")
	}
	for _, c := range x.Clusters {
		text, err := json.Marshal(c.Result)
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), member.MaxResult)
	}
	b.same(t, x, got)
	require.Positive(t, b.Open(), "connections of clusters that are over stay open")
}

// holdsOf are the webhooks that a cluster was told to be held for.
func holdsOf(all []fleet.Event, cluster string) []string {
	var names []string
	for _, e := range all {
		if e.Cluster == cluster && e.Hold != nil {
			names = append(names, e.Hold.Webhook)
		}
	}
	return names
}

// same looks whether the run's folder has what the engine told.
func (b *bed) same(t *testing.T, x *fleet.Execution, got *events) {
	t.Helper()
	kept, err := b.run.Events()
	require.NoError(t, err)
	require.Len(t, kept, len(got.all))
	folded, err := b.run.Execution()
	require.NoError(t, err)
	require.Equal(t, x.Counts(), folded.Counts())
	for name, inner := range got.did {
		read, err := ledger.ReadEvents(b.run.ClusterPath(name))
		require.NoError(t, err)
		require.Len(t, read, len(inner))
	}
	list, err := b.folder.List("edge")
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, x.Counts(), list[0].Counts)
	require.True(t, list[0].Unfinished())
}
