// Package preflight tells what clusters have to say of a plan's steps before any of
// them runs. Check, which takes its time, looks for kinds and namespaces that nothing
// brings, objects that the API server would refuse, and releases of another chart. Run
// and Hold look in a moment, beside the first steps, for what keeps steps from their work:
// rights, webhooks, quotas.
//
// It writes nothing: Check sends objects as dry runs, the others ask for reviews of
// rights. It does not know what a controller will make while the plan runs, but for what
// the plan waits for.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// Check asks the clusters of a plan what they have to say of it before it runs. The
// error joins which clusters cannot be asked; one whose kubeconfig is not there yet
// is none of them. Charts come from a store.
func Check(ctx context.Context, p *plan.Plan, flags *genericclioptions.ConfigFlags, from *source.Store, userAgent string) ([]finding.Finding, error) {
	all, err := cluster.Open(p, flags, userAgent)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, conn := range all {
			conn.Close()
		}
	}()
	if from != nil {
		var ahead sync.WaitGroup
		ahead.Go(func() { from.Ahead(ctx, p.Steps, nil) }) // ends with the context
		defer ahead.Wait()
	}
	c := &checker{plan: p, graph: p.Graph(), conns: all, sources: from}
	var (
		group  errgroup.Group
		names  = slices.Sorted(maps.Keys(all))
		absent = make([]*cluster.AbsentError, len(names))
		errs   = make([]error, len(names))
	)
	for i, name := range names {
		group.Go(func() error {
			if _, err := all[name].Connect(ctx); !errors.As(err, &absent[i]) {
				errs[i] = err
			}
			return nil
		})
	}
	_ = group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, name := range names {
		if absent[i] != nil {
			c.unknown(name, absent[i])
			continue
		}
		if slices.ContainsFunc(names[:i], func(other string) bool { return p.SameCluster(name, other) }) {
			continue
		}
		if err := c.cluster(ctx, name); err != nil {
			return nil, err
		}
	}
	return c.findings, nil
}

// checker checks one plan.
type checker struct {
	plan  *plan.Plan
	graph *plan.Graph
	conns map[string]*cluster.Conn
	// sources gets charts.
	sources *source.Store

	mu       sync.Mutex
	findings []finding.Finding
}

func (c *checker) find(rule string, s plan.Step, hint, message string, fields ...any) {
	c.tell(Find(rule, s, hint, message, fields...))
}

func (c *checker) tell(f finding.Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings = append(c.findings, f)
}

// unknown says of the steps on a cluster that they cannot be checked.
func (c *checker) unknown(cluster string, why error) {
	for _, s := range c.plan.Steps {
		if c.plan.StepCluster(s) == cluster && kinds.Runs(s) {
			c.find(Unchecked, s, "", fmt.Sprintf("the step cannot be checked before the run: %v", why), "cluster")
		}
	}
}

// cluster checks the steps on a cluster, under all of its names in the plan.
func (c *checker) cluster(ctx context.Context, name string) error {
	api := c.conns[name].Now()
	session, err := api.Session(cluster.Options{})
	if err != nil {
		return err
	}
	served, version, err := api.Serves(ctx)
	if err != nil {
		return kubeerr.Explain(err, kubeerr.Op{Verb: "get"})
	}
	on := &clusterChecker{checker: c, session: session, has: charts.CapabilitiesOf(version, served), exists: map[string]bool{}}
	for _, s := range c.plan.Steps {
		at := c.plan.StepCluster(s)
		if !kinds.Runs(s) || !c.plan.SameCluster(at, name) || c.conns[at] == nil {
			continue
		}
		if err := on.read(ctx, s); err != nil {
			return err
		}
	}
	return on.check(ctx)
}

// The rules of findings. They do not change from one version to the next.
const (
	Kind      = "cluster-kind"
	Namespace = "cluster-namespace"
	Refused   = "cluster-refused"
	Release   = "cluster-release"
	Owner     = "cluster-owner"
	Chart     = "cluster-chart"
	Rights    = "cluster-rights"
	Webhook   = "cluster-webhook"
	Quota     = "cluster-quota"
	Pods      = "cluster-pods"
	Reach     = "cluster-reach"
	Version   = "cluster-version"
	// Unchecked is of what the cluster cannot tell yet. It is no fault.
	Unchecked = "cluster-unchecked"
)

// Rules are all rules.
var Rules = []finding.Rule{
	{ID: Kind, Severity: finding.Error, Summary: "The cluster does not know a kind, and no step before brings it."},
	{ID: Namespace, Severity: finding.Error, Summary: "A namespace does not exist, and no step before makes it."},
	{ID: Refused, Severity: finding.Error, Summary: "The API server refuses an object."},
	{ID: Release, Severity: finding.Error, Summary: "A release of this name is of another chart."},
	{ID: Owner, Severity: finding.Error, Summary: "An object of a chart exists, and is not the release's."},
	{ID: Chart, Severity: finding.Error, Summary: "A chart cannot be had, or not be rendered for the cluster."},
	{ID: Rights, Severity: finding.Error, Summary: "The user may not do what a step does."},
	{ID: Webhook, Severity: finding.Error, Summary: "A webhook that fails what is written cannot be called, and nothing brings what it needs."},
	{ID: Quota, Severity: finding.Error, Summary: "A quota has no room for what is made."},
	{ID: Pods, Severity: finding.Error, Summary: "A namespace does not admit the pods of a step."},
	{ID: Reach, Severity: finding.Error, Summary: "A cluster cannot be reached."},
	{ID: Version, Severity: finding.Error, Summary: "The API server is too old."},
	{ID: Unchecked, Severity: finding.Note, Summary: "The cluster cannot tell yet."},
}

// Find returns what breaks a rule at a field of a step.
func Find(rule string, s plan.Step, hint, message string, fields ...any) finding.Finding {
	at := s.Locate(fields...)
	f := finding.Finding{Pos: at.Pos, Path: at.Path, Excerpt: at.Excerpt, Rule: rule, Severity: finding.Error, Message: message, Hint: hint, Step: s.Name}
	if rule == Unchecked {
		f.Severity = finding.Note
	}
	return f
}
