package load

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// flattener puts the steps of a plan and of those that it includes into one list.
type flattener struct {
	*session
	root *plan.Plan
	// steps and last are the steps, and those of finally.
	steps, last []plan.Step
	clusters    map[string]plan.Cluster
	// repositories are those of the plan and of all that it includes.
	repositories map[string]plan.Repository
}

// inherited is what an include hands down to its steps.
type inherited struct {
	needs    []plan.Need
	last     bool
	tags     []string
	whens    []*instance
	refs     []reference
	skip     bool
	timeout  *plan.Duration
	retry    *plan.Retry
	webhooks *plan.Webhooks
	failFast *bool
	helm     plan.HelmDefaults
	ready    map[string]plan.Readiness
}

// maxNeeds bounds the needs of all steps once those of groups and includes are put
// in: each step of one group needs each of another.
const maxNeeds = 300_000

// flatten makes the plan's steps of the file's.
func flatten(p *pass) {
	f := &flattener{session: p.session, root: p.plan, clusters: p.plan.Clusters, repositories: p.plan.Repositories}
	f.add(p.file, inherited{})
	c := p.file
	c.plan.Steps = append(f.steps, f.last...)
	c.plan.Finally = nil
	c.plan.Clusters, c.plan.Repositories = f.clusters, f.repositories
}

func (f *flattener) add(c *file, o inherited) {
	f.root.Texts = append(f.root.Texts, c.source)
	f.addClusters(c)
	f.addRepositories(c)
	var normal []string // the names of the plan's own steps, if it is included by one of finally
	for _, e := range c.decls {
		needs := f.needs(c, e, o)
		if e.last && o.last {
			for _, name := range normal {
				needs = append(needs, plan.Need{Step: name, On: plan.NeedAlways})
			}
		}
		for _, it := range e.instances {
			if e.isInclude {
				if it.child != nil {
					f.add(it.child, it.inherit(o, needs))
				}
				continue
			}
			f.addStep(o, needs, it)
		}
		if !e.last && o.last {
			normal = append(normal, e.flatNames(true)...)
		}
	}
}

// inherit returns what an include hands down.
func (it *instance) inherit(o inherited, needs []plan.Need) inherited {
	c, s := it.decl.file, it.step
	d := c.plan.Defaults
	ready := inner(o.ready, c.plan.Ready)
	in := inherited{
		needs: needs, last: o.last || it.decl.last, tags: union(o.tags, s.Tags), whens: o.whens, refs: o.refs,
		skip: o.skip || it.skip, timeout: cmp.Or(s.Timeout, d.Timeout, o.timeout),
		retry: s.Retry.Or(d.Retry).Or(o.retry), webhooks: s.Webhooks.Or(d.Webhooks).Or(o.webhooks),
		failFast: cmp.Or(s.FailFast, d.FailFast, o.failFast), helm: d.Helm.Or(o.helm), ready: ready,
	}
	if c.parent == nil {
		// The defaults of the plan itself hold for all steps already.
		in.timeout, in.retry, in.webhooks, in.failFast = s.Timeout, s.Retry, s.Webhooks, s.FailFast
	}
	if len(it.refs) > 0 {
		in.whens = append(slices.Clip(o.whens), it)
		in.refs = append(slices.Clip(o.refs), it.refs...)
	}
	return in
}

// inner are the rules of an included plan, and those around it for other kinds.
func inner(outer, own map[string]plan.Readiness) map[string]plan.Readiness {
	switch {
	case len(own) == 0:
		return outer
	case len(outer) == 0:
		return own
	}
	all := maps.Clone(outer)
	maps.Copy(all, own)
	return all
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// addStep adds one step.
func (f *flattener) addStep(o inherited, needs []plan.Need, it *instance) {
	s := it.step
	s.Needs = needs
	s.Last = it.decl.last || o.last
	it.finish(&s, o)
	asks := distinct(o.refs, it.refs)
	if len(asks) > 0 && s.Skip == "" {
		dropDeferred(&s)
		s.Pending = &plan.Pending{Inputs: asks, Must: it.musts(o), Bind: func(s plan.Step, known plan.Inputs) (plan.Step, error) { return it.bind(s, o, known) }}
	}
	if s.Last {
		f.last = append(f.last, s)
	} else {
		f.steps = append(f.steps, s)
	}
}

// finish fills in what the step has from where it stands.
func (it *instance) finish(s *plan.Step, o inherited) {
	e, c := it.decl, it.decl.file
	s.Name = it.flatName()
	s.Helm = c.place(s.Helm)
	if s.Helm != nil && s.Helm.Release == "" && s.Name != e.name && !e.grouped {
		s.Helm.Release = e.name
	}
	if e.grouped {
		s.Group, s.Parallel = c.prefix+e.name, e.parallel
	}
	if h := s.Helm; h != nil {
		d := c.plan.Defaults.Helm.Or(o.helm)
		h.Engine, h.ServerSide = cmp.Or(c.engine, h.Engine, d.Engine), cmp.Or(h.ServerSide, d.ServerSide)
	}
	s.ForEach = nil
	s.Dir = c.plan.Dir
	s.Ready = inner(o.ready, c.plan.Ready)
	s.Cluster = c.clusterName(s.Cluster)
	s.Tags = union(o.tags, s.Tags)
	s.Origin = document.Origin{Text: c.source, At: e.at}
	if d := c.plan.Defaults; c.parent != nil {
		s.Timeout = cmp.Or(s.Timeout, d.Timeout, o.timeout)
		s.Retry = s.Retry.Or(d.Retry).Or(o.retry)
		s.Webhooks = s.Webhooks.Or(d.Webhooks).Or(o.webhooks)
		s.FailFast = cmp.Or(s.FailFast, d.FailFast, o.failFast)
	}
	if o.skip || s.When == false {
		s.When, s.Skip = false, whenFalse
	}
}

// dropDeferred takes out of the step's lists what is known only when it starts.
func dropDeferred(s *plan.Step) {
	known := func(files []string) []string {
		return slices.DeleteFunc(slices.Clone(files), func(f string) bool { return f == "" })
	}
	if s.Helm != nil {
		s.Helm = new(*s.Helm)
		s.Helm.ValuesFiles = known(s.Helm.ValuesFiles)
	}
	if s.Apply != nil {
		s.Apply = new(*s.Apply)
		s.Apply.Files = known(s.Apply.Files)
		s.Apply.Objects = slices.DeleteFunc(slices.Clone(s.Apply.Objects), func(o map[string]any) bool { return o == nil })
	}
	if s.Delete != nil {
		s.Delete = new(*s.Delete)
		s.Delete.Files = known(s.Delete.Files)
		s.Delete.Objects = slices.DeleteFunc(slices.Clone(s.Delete.Objects), func(o map[string]any) bool { return o == nil })
	}
	if s.Webhook != nil {
		s.Webhook = new(*s.Webhook)
		s.Webhook.Files = known(s.Webhook.Files)
		if s.Webhook.Canary != nil {
			c := new(*s.Webhook.Canary)
			c.Accept, c.Deny = known(c.Accept), known(c.Deny)
			c.Mutate = slices.DeleteFunc(slices.Clone(c.Mutate), func(m plan.Mutation) bool { return m.File == "" })
			s.Webhook.Canary = c
		}
	}
}

const whenFalse = "when is false"

// distinct are the inputs that deferred values ask for, each once.
func distinct(lists ...[]reference) []plan.Input {
	var asks []plan.Input
	seen := map[plan.Input]bool{}
	for _, list := range lists {
		for _, a := range list {
			if a.input != (plan.Input{}) && !seen[a.input] {
				seen[a.input] = true
				asks = append(asks, a.input)
			}
		}
	}
	return asks
}

// musts are the inputs without whose answer the step cannot start. There are none for
// one whose when may turn out to be false: nothing else is looked at then.
func (it *instance) musts(o inherited) []plan.Input {
	if len(o.whens) > 0 || value.IsUnsaid(it.tree["when"]) {
		return nil
	}
	return distinct(slices.DeleteFunc(slices.Clone(it.refs), func(a reference) bool { return !a.must }))
}

// flatNames are the names of the steps that a declared step becomes; without those of an
// included plan's finally, unless all is wanted.
func (e *stepDecl) flatNames(all bool) []string {
	var names []string
	for _, it := range e.instances {
		switch {
		case it.child != nil:
			for _, x := range it.child.decls {
				if !x.last || all {
					names = append(names, x.flatNames(all)...)
				}
			}
		case !e.isInclude:
			names = append(names, it.flatName())
		}
	}
	return names
}

// needs are those of a step's fields and of the includes around it, in terms of the
// whole plan.
func (f *flattener) needs(c *file, e *stepDecl, o inherited) []plan.Need {
	needs := slices.Clip(o.needs)
	if len(e.needs) == 0 || f.sum.needs > maxNeeds {
		return needs
	}
	seen := map[string]bool{}
	for j, n := range e.needs {
		names := c.meant(e, n.Step)
		if target := c.target(n.Step); len(names) == 0 && target != nil && target.name != n.Step && target.whole() {
			f.pass(c).Report(fault{Code: document.CodeUnknownName, At: e.at.Key("needs").Index(j)}, "there is no step %q", n.Step)
		}
		for _, name := range names {
			if !seen[name] {
				seen[name] = true
				needs = append(needs, plan.Need{Step: name, On: n.On})
			}
		}
	}
	f.sum.needs += len(needs) * max(1, len(e.instances))
	if f.sum.needs > maxNeeds {
		if f.sum.needs-len(needs)*max(1, len(e.instances)) <= maxNeeds {
			f.pass(c).ReportField(fault{At: e.at.Key("needs"), Hint: "let a single step stand between two large groups"}, "the steps have more than %d needs once for_each and include are put in", maxNeeds)
		}
		return nil
	}
	return needs
}

// whole reports whether all that a step includes could be read.
func (e *stepDecl) whole() bool {
	return !e.isInclude || !slices.ContainsFunc(e.instances, func(it *instance) bool { return it.child == nil })
}

// meant are the names in the whole plan that a need means.
func (c *file) meant(e *stepDecl, name string) []string {
	target := c.target(name)
	switch {
	case target == nil:
		return nil
	case target.name == name:
		return target.flatNames(e.last)
	}
	full := c.prefix + name
	var names []string
	for _, n := range target.flatNames(true) {
		if (plan.Step{Name: n}).IsPart(full) {
			names = append(names, n)
		}
	}
	return names
}

// clusterName returns the name in the whole plan of one of the file's clusters; for
// "" that of the default.
func (c *file) clusterName(name string) string {
	if name == "" {
		name = c.plan.Defaults.Cluster
	}
	if c.parent == nil {
		return name
	}
	if name == "" {
		return c.parent.clusterName(c.parentInstance.step.Cluster)
	}
	if outer, ok := c.mapped(name); ok {
		return c.parent.clusterName(outer)
	}
	return c.prefix + name
}

// addClusters adds the clusters of an included plan under the names that its steps
// have for them.
func (f *flattener) addClusters(c *file) {
	if c.parent == nil {
		return
	}
	for name, cluster := range c.plan.Clusters {
		if _, ok := c.mapped(name); ok {
			continue
		}
		if f.clusters == nil {
			f.clusters = map[string]plan.Cluster{}
		}
		if cluster.Kubeconfig != "" {
			cluster.Kubeconfig = filepath.Clean(c.plan.Abs(cluster.Kubeconfig))
		}
		if ref := cluster.KubeconfigSecret; ref != nil {
			cluster.KubeconfigSecret = new(*ref)
			cluster.KubeconfigSecret.Cluster = c.clusterName(ref.Cluster)
		}
		f.clusters[c.prefix+name] = cluster
	}
}
