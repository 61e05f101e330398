package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

const planText = `
apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: thousand}
state: {namespace: "${{ vars.namespace }}"}
vars: {namespace: {type: string}, hold: {type: string, default: 1m}}
clusters: {target: {context: nobody-has-it}}
defaults: {cluster: target, timeout: 2m, webhooks: {hold_timeout: "${{ vars.hold }}"}, retry: {install_retries: 1}}
steps:
- name: chart
  helm: {chart: ./chart, release: tiny, namespace: "${{ vars.namespace }}"}
- name: objects
  apply: {namespace: "${{ vars.namespace }}", objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}}]}
- name: judged
  needs: [chart, objects]
  apply: {namespace: "${{ vars.namespace }}", objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: judged}}]}
- name: ready
  needs: [judged]
  timeout: 20s
  wait: {resource: configmap/judged, namespace: "${{ vars.namespace }}", for: create}
`

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
	write := func(name, text string) {
		path := filepath.Join(b.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("plan.yaml", planText)
	write("chart/Chart.yaml", "apiVersion: v2\nname: tiny\nversion: 0.1.0\n")
	write("chart/templates/all.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-the-chart}\ndata: {release: {{ .Release.Name }}}\n")
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
	for _, c := range x.Clusters {
		t.Logf("%s %s %v", c.Name, c.State, c.Result)
		if c.Result != nil && c.Result.Cause != nil {
			t.Logf("   %+v", *c.Result.Cause)
		}
	}
	for _, g := range x.Failures() {
		t.Logf("%d: %+v", len(g.Clusters), g.Cause)
	}
	_ = got
	_ = metav1.Now
	_ = fmt.Sprint
	_ = strings.ToLower
}
