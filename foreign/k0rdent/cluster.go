package k0rdent

import (
	"cmp"
	"slices"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
	"github.com/kplan-dev/kplan/plan"
)

// cluster is one that a ClusterDeployment makes.
type cluster struct {
	*importer
	v *object.Object
	// name is the plan's, and used says whether a step is on it.
	name string
	used bool
	// ready is the step that waits for it.
	ready *foreign.Step
}

// cluster reads a ClusterDeployment. Its template, credential and config stay with
// k0rdent.
func (im *importer) cluster(o *object.Object) *cluster {
	spec := o.Get("spec")
	for _, name := range []string{"template", "credential", "config", "dryRun", "propagateCredentials", "cleanupOnDeletion"} {
		spec.Get(name).Take()
	}
	return &cluster{importer: im, v: o}
}

// use declares the cluster, and waits for it: k0rdent writes its kubeconfig into a Secret
// as Cluster API does (kcm, internal/kubeconfig).
func (c *cluster) use() {
	if c.used {
		return
	}
	c.used = true
	c.manage()
	c.name = c.plan.FreeCluster(c.v.Name, c.v.Namespace+"-"+c.v.Name)
	var f, secret foreign.Fields
	secret.Set("cluster", management)
	secret.Set("namespace", cmp.Or(c.v.Namespace, system))
	secret.Set("name", c.v.Name+"-kubeconfig")
	secret.Set("key", "value")
	f.Set("kubeconfig_secret", &secret)
	c.plan.Clusters.Set(c.name, &f)
	c.ready = c.plan.Add(&foreign.Step{Kind: plan.KindWait, Cluster: management}, c.v.Name+"-ready")
	c.ready.Fields.Set("resource", "clusterdeployment."+group+"/"+c.v.Name)
	c.ready.Fields.Set("namespace", cmp.Or(c.v.Namespace, system))
	c.ready.Fields.Set("for", "condition=Ready")
}

// manage declares the cluster with k0rdent: that of the kubeconfig's context.
func (im *importer) manage() {
	if im.plan.Clusters.Value(management) == nil {
		im.plan.Clusters.Keep(management, (&foreign.Fields{}).Node())
	}
}

// multiple imports the MultiClusterServices, in an order in which those that others
// depend on come first.
func (im *importer) multiple() {
	var all []*object.Object
	for _, o := range im.objects {
		if o.Is(group, "MultiClusterService") {
			all = append(all, o)
		}
	}
	made := map[string][]*foreign.Step{}
	for _, o := range all {
		spec := o.Get("spec")
		for _, c := range im.selected(o, spec.Get("clusterSelector")) {
			services := im.servicesOf(o, system, c)
			im.link(services)
			for _, s := range services {
				made[o.Name] = append(made[o.Name], s.step)
			}
		}
	}
	for _, o := range all {
		for _, d := range o.Get("spec", "dependsOn").Items() {
			name := d.Text()
			if made[name] == nil {
				d.Lost("import its file too, or be sure that it is installed before", "the MultiClusterService %s is not in the files", name)
			}
			for _, s := range made[o.Name] {
				for _, before := range made[name] {
					if before.Cluster == s.Cluster {
						s.Need(before, "MultiClusterService "+name)
					}
				}
			}
		}
	}
}

// selected are the clusters of the files that a selector matches. Without any the
// services are on one that the plan's author has to name: that is nil.
func (im *importer) selected(o *object.Object, selector *foreign.Value) []*cluster {
	labels := selector.Get("matchLabels")
	var found []*cluster
	for _, c := range im.clusters {
		if slices.ContainsFunc(labels.Fields(), func(l *foreign.Value) bool {
			return c.v.Get("metadata", "labels").Get(l.Name()).Peek() != l.Peek()
		}) {
			continue
		}
		found = append(found, c)
	}
	if selector.Get("matchExpressions").Given() {
		found = nil
	}
	if len(found) == 0 {
		at := selector
		if !at.Given() {
			at = o.Get("metadata", "name")
		}
		at.Lost("name the contexts of the clusters, and repeat the steps for each; or import the ClusterDeployments too", "which clusters %s selects is not known here: the steps are on the cluster %s of the plan", o.Name, foreign.Label(o.Name))
		return []*cluster{nil}
	}
	selector.Changed("a cluster that is added later needs steps of its own", "%s selects clusters by labels: the plan has those of the files, by their names", o.Name)
	return found
}
