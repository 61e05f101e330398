// Package k0rdent makes a plan of the services that k0rdent installs on clusters: those
// of ClusterDeployments and MultiClusterServices, with the charts of their
// ServiceTemplates.
//
// It makes no cluster: a ClusterDeployment stays with k0rdent, and the plan waits for it.
// What k0rdent's own API and its webhooks default is not known here.
//
// The fields are those of kcm 1.5 (api/v1beta1).
package k0rdent

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// About says what is in the plan, for the help of the command.
const About = `Read objects of k0rdent from files, folders or 'kubectl get … -o yaml', and write a plan that installs their services.

Each service of a ClusterDeployment becomes a step on that cluster, whose kubeconfig is read from its Secret once the cluster is ready. Those
of a MultiClusterService become steps on each ClusterDeployment of the files that its selector matches. Charts are those of the
ServiceTemplates and HelmRepositories, which have to be among the files.

For what is in a cluster:
  kubectl get clusterdeployments,multiclusterservices,servicetemplates,helmrepositories -A -o yaml | kplan import k0rdent -`

const (
	group       = "k0rdent.mirantis.com"
	sourceGroup = "source.toolkit.fluxcd.io"
	// system is the namespace that k0rdent looks for templates of MultiClusterServices in.
	system = "kcm-system"
	// management is the plan's name of the cluster with k0rdent.
	management = "management"
)

// importer makes one plan.
type importer struct {
	in      foreign.Input
	result  *foreign.Result
	plan    *foreign.Plan
	objects []*object.Object
	// clusters are the ClusterDeployments, in the order of the files.
	clusters []*cluster
	// services are by the MultiClusterService that they are of.
	services map[string][]*service
}

// Import makes a plan of objects of k0rdent.
func Import(in foreign.Input) (*foreign.Result, error) {
	im := &importer{in: in, result: &foreign.Result{}, plan: &foreign.Plan{Name: in.Name}, services: map[string][]*service{}}
	im.result.Plan = im.plan
	var err error
	if im.objects, err = object.ReadAll(in, &im.result.Report); err != nil {
		return nil, err
	}
	for _, o := range im.objects {
		if o.Is(group, "ClusterDeployment") {
			im.clusters = append(im.clusters, im.cluster(o))
		}
	}
	for _, c := range im.clusters {
		im.link(im.servicesOf(c.v, c.v.Namespace, c))
	}
	im.multiple()
	if err := im.result.Filled("there is no service of a ClusterDeployment or MultiClusterService in it"); err != nil {
		return nil, err
	}
	im.others()
	im.sayFirst()
	for _, o := range im.objects {
		o.Leftovers(losses)
	}
	if im.plan.Name == "" {
		im.plan.Name = im.name()
	}
	return im.result, nil
}

// name is that of the only file.
func (im *importer) name() string {
	if len(im.in.Files) == 1 && im.in.Files[0].Name != "stdin" {
		return strings.TrimSuffix(path.Base(im.in.Files[0].Name), path.Ext(im.in.Files[0].Name))
	}
	return "k0rdent"
}

// find is an object of the files; nil when there is none. One without a namespace is in
// any.
func (im *importer) find(group, kind, namespace, name string) *object.Object {
	for _, o := range im.objects {
		if o.Is(group, kind) && o.Name == name && (o.Namespace == namespace || o.Namespace == "" || namespace == "") {
			return o
		}
	}
	return nil
}

// ofService are the kinds that are read for the services.
var ofService = []string{"ClusterDeployment", "MultiClusterService", "ServiceTemplate", "ServiceTemplateChain"}

// others applies objects on the cluster with k0rdent that are none of its own.
func (im *importer) others() {
	var rest []*object.Object
	for _, o := range im.objects {
		switch {
		case o.Group == group && slices.Contains(ofService, o.Kind):
			o.TakeHead()
			if o.Kind == "ServiceTemplateChain" {
				o.Take() // says what may be upgraded to what, which the plan's author decides
			}
		case o.Group == group:
			o.Lost("leave it to k0rdent", "%s is not imported", o)
		case o.Group == sourceGroup:
			o.TakeHead()
		default:
			rest = append(rest, o)
		}
	}
	all := object.Rest{Plan: im.plan, Report: &im.result.Report, In: im.in, Objects: rest, Name: "objects", All: im.objects}
	before := all.Own()
	steps := slices.Clone(im.plan.Steps)
	after := all.Custom()
	for _, s := range []*foreign.Step{before, after} {
		if s != nil && im.plan.Clusters.Value(management) != nil {
			s.Cluster = management
		}
	}
	for _, s := range steps {
		if before != nil && s != before && len(s.Needs) == 0 {
			s.Need(before, "")
		}
		if after != nil {
			after.Need(s, "")
		}
	}
}

// sayFirst says what to do before the first run.
func (im *importer) sayFirst() {
	for _, c := range im.clusters {
		if c.used {
			im.result.Before("make the ClusterDeployment %s without spec.serviceSpec: k0rdent would install the services too. Where they are installed already, it uninstalls what is taken out, and the plan installs it anew", c.v.Name)
		}
	}
	for _, o := range im.objects {
		if o.Is(group, "MultiClusterService") {
			im.result.Before("delete the MultiClusterService %s: k0rdent uninstalls its services, and the plan installs them anew", cmp.Or(o.Name, "?"))
		}
	}
	im.result.Before("kplan diff the plan, then run it")
}
