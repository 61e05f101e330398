package helm

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	helmkube "helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/dryrun"
)

// The things that a step can do with its release.
const (
	Installs = "install"
	Upgrades = "upgrade"
	Corrects = "correct"
	Nothing  = ""
)

// Preview is what a step would do with its release.
type Preview struct {
	Namespace, Name string
	// Does is Installs, Upgrades, Corrects or Nothing.
	Does string
	// Revision is the one that would be made; the deployed one for Corrects and Nothing.
	Revision int
	// Chart is the chart's name and version, and Before that of the last revision.
	Chart, Before string
	// Values are those of the step, and ValuesBefore those of the last revision.
	Values, ValuesBefore map[string]any
	// Hooks are those that would run, such as "pre-install Job/ns/name".
	Hooks []string
	// Rendered are the objects that would be sent, and Again those of a second
	// rendering, in which what is made by chance is another.
	Rendered, Again []*unstructured.Unstructured
	// Objects are what would become of them, and of those that would be deleted.
	Objects []*dryrun.Object
}

// Preview finds what the step would do. The session must send dry runs only.
func (a *Action) Preview(ctx context.Context, s *cluster.Session) (*Preview, error) {
	values, err := a.Values()
	if err != nil {
		return nil, err
	}
	ch, err := a.Source.Load(ctx)
	if err != nil {
		return nil, err
	}
	o, err := a.prepare(ctx, s, silent{}, ch, values)
	if err != nil {
		return nil, err
	}
	defer o.client.order.Close()
	p := &Preview{
		Namespace: o.Namespace, Name: o.ReleaseName, Revision: 1, Does: Installs,
		Chart: ch.Metadata.Name + " " + ch.Metadata.Version, Values: values,
	}
	if o.last != nil {
		p.Before, p.ValuesBefore, p.Revision = chartOf(o.last), o.last.Config, o.last.Version+1
	}
	unchanged := o.last != nil && o.sameInputs() && !o.options.ForceUpgrade
	if unchanged && o.last.Info.Status == release.StatusDeployed {
		return p, o.previewAgain(p)
	}
	o.resend = unchanged && o.last.Info.Status == release.StatusFailed
	return p, o.previewRevision(p)
}

func chartOf(r *release.Release) string {
	if r.Chart == nil || r.Chart.Metadata == nil {
		return ""
	}
	return r.Chart.Metadata.Name + " " + r.Chart.Metadata.Version
}

// previewAgain finds what becomes of a release whose inputs did not change.
func (o *operation) previewAgain(p *Preview) error {
	resources, err := lenient{o.client}.Build(manifestOf(o.last), false)
	if err != nil {
		return fmt.Errorf("reading the release's objects: %w", err)
	}
	d, err := o.client.drift(o.ctx, o.last, resources)
	if err != nil {
		return err
	}
	if len(d.Gone) > 0 && o.Spec.Drift != plan.ReportDrift {
		o.resend = true
		return o.previewRevision(p)
	}
	p.Does, p.Revision = Nothing, o.last.Version
	if p.Rendered, err = charts.Decode(o.last.Manifest); err != nil {
		return err
	}
	o.Place(p.Rendered)
	p.Again = p.Rendered
	if o.Spec.Drift != plan.CorrectDrift && o.Spec.Drift != "" {
		return nil
	}
	o.client.confirm(o.ctx, d)
	for _, c := range d.Changed {
		if len(c.Fields) == 0 {
			continue
		}
		p.Does = Corrects
		p.Objects = append(p.Objects, &dryrun.Object{
			Kind: c.info.Mapping.GroupVersionKind, Namespace: c.info.Namespace, Name: c.info.Name,
			Before: c.Live, After: c.target(), Drift: c.Fields,
		})
	}
	return nil
}

// previewRevision finds what a new revision would be, and what would become of the
// objects by it.
func (o *operation) previewRevision(p *Preview) error {
	rel, err := o.rendered()
	if err != nil {
		return explain(err, o.Namespace)
	}
	before := o.deployed
	install := o.last == nil || o.last.Info.Status == release.StatusUninstalled || len(o.replaces) > 0
	events := []release.HookEvent{release.HookPreInstall, release.HookPostInstall}
	if !install {
		p.Does, events = Upgrades, []release.HookEvent{release.HookPreUpgrade, release.HookPostUpgrade}
		if before == nil {
			before = o.last
		}
	}
	for _, e := range events {
		for _, h := range rel.Hooks {
			if slices.Contains(h.Events, e) {
				p.Hooks = append(p.Hooks, string(e)+" "+h.Kind+"/"+h.Name)
			}
		}
	}
	if p.Rendered, err = o.objectsOf(rel, install); err != nil {
		return err
	}
	p.Again = p.Rendered
	if !o.resend {
		again, err := o.rendered()
		if err != nil {
			return explain(err, o.Namespace)
		}
		if p.Again, err = o.objectsOf(again, install); err != nil {
			return err
		}
	}
	return o.ask(p, before)
}

// rendered makes the next revision as Helm does, by its dry run with the cluster.
func (o *operation) rendered() (*release.Release, error) {
	if o.resend {
		return o.last, nil
	}
	ch, err := o.Source.Load(o.ctx) // Helm changes the one that it renders
	if err != nil {
		return nil, err
	}
	config := *o.Configuration
	config.KubeClient = lenient{o.client}
	if o.last == nil || o.last.Info.Status == release.StatusUninstalled || len(o.replaces) > 0 {
		i := action.NewInstall(&config)
		i.ReleaseName, i.Namespace = o.ReleaseName, o.Namespace
		i.DryRun, i.DryRunOption, i.Replace = true, "server", o.last != nil
		return i.Run(ch, o.values)
	}
	u := action.NewUpgrade(&config)
	u.Namespace, u.ResetValues = o.Namespace, true
	u.DryRun, u.DryRunOption = true, "server"
	return u.Run(o.ReleaseName, ch, o.values)
}

// objectsOf are a revision's objects, with those of the crds folder in an install.
func (o *operation) objectsOf(r *release.Release, install bool) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	if install && !o.Spec.SkipCRDs && r.Chart != nil {
		for _, crd := range r.Chart.CRDObjects() {
			found, err := charts.Decode(string(crd.File.Data))
			if err != nil {
				return nil, err
			}
			objects = append(objects, found...)
		}
	}
	own, err := charts.Decode(r.Manifest)
	if err != nil {
		return nil, err
	}
	o.Place(own)
	for _, u := range own {
		mark(u, r)
	}
	return append(objects, own...), nil
}

// ask sends the objects of a revision as dry runs, each as Helm would send it.
func (o *operation) ask(p *Preview, before *release.Release) error {
	original := helmkube.ResourceList{}
	var err error
	if before != nil && before.Info.Status != release.StatusUninstalled {
		if original, err = (lenient{o.client}).Build(manifestOf(before), false); err != nil {
			return fmt.Errorf("reading the objects of revision %d: %w", before.Version, err)
		}
	}
	p.Objects = make([]*dryrun.Object, len(p.Rendered))
	infos := make(helmkube.ResourceList, len(p.Rendered))
	errs := make([]error, len(p.Rendered))
	var sender dryrun.Sender
	dryrun.Each(len(p.Rendered), func(i int) {
		manifest := p.Rendered[i]
		planned := dryrun.Of(manifest)
		p.Objects[i] = planned
		infos[i], errs[i] = o.client.infoOf(o.ctx, manifest)
		if meta.IsNoMatchError(errs[i]) {
			errs[i] = nil
			planned.Guess(manifest, fmt.Sprintf("the cluster does not know the kind %s yet", planned.Kind.Kind))
			return
		}
		if errs[i] != nil {
			return
		}
		planned.Namespace = infos[i].Namespace
		if planned.Before, errs[i] = o.client.get(o.ctx, infos[i]); errs[i] != nil {
			return
		}
		sender.Ask(o.ctx, planned, manifest, func(ctx context.Context) (*unstructured.Unstructured, error) {
			return o.client.dry(ctx, original.Get(infos[i]), infos[i], manifest)
		})
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for _, info := range original {
		if slices.ContainsFunc(p.Objects, func(d *dryrun.Object) bool {
			return d.Kind.GroupKind() == info.Mapping.GroupVersionKind.GroupKind() && d.Namespace == info.Namespace && d.Name == info.Name
		}) {
			continue
		}
		live, err := o.client.get(o.ctx, info)
		if err != nil {
			return err
		}
		if live != nil && live.GetAnnotations()[helmkube.ResourcePolicyAnno] != helmkube.KeepPolicy {
			p.Objects = append(p.Objects, &dryrun.Object{Kind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name, Before: live})
		}
	}
	return nil
}

// dry sends one object as Helm would.
func (c *client) dry(ctx context.Context, before, info *resource.Info, manifest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	own, err := c.over(ctx, info)
	if err != nil {
		return nil, err
	}
	own.Object = manifest.DeepCopy()
	var original helmkube.ResourceList
	if before != nil {
		original = helmkube.ResourceList{before}
	}
	if _, err := c.Client.Update(original, helmkube.ResourceList{own}, false); err != nil {
		return nil, single(err)
	}
	return unstructuredOf(own.Object)
}

// infoOf is what Helm knows of an object whose kind is served.
func (c *client) infoOf(ctx context.Context, u *unstructured.Unstructured) (*resource.Info, error) {
	mapping, err := c.session.Cluster.Mapping(ctx, u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	info := &resource.Info{Mapping: mapping, Namespace: u.GetNamespace(), Name: u.GetName(), Object: u}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		info.Namespace = ""
	}
	return info, nil
}

// lenient is a client that leaves out objects whose kind the cluster does not know
// yet, rather than to wait for it.
type lenient struct{ *client }

// Build implements helmkube.Interface.
func (l lenient) Build(r io.Reader, _ bool) (helmkube.ResourceList, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	objects, err := charts.Decode(string(text))
	if err != nil {
		return nil, err
	}
	known := map[schema.GroupVersionKind]error{}
	var list helmkube.ResourceList
	for _, u := range objects {
		gvk := u.GroupVersionKind()
		err, asked := known[gvk]
		if !asked {
			_, err = l.session.Cluster.Mapping(l.ctx, gvk)
			known[gvk] = err
		}
		if meta.IsNoMatchError(err) {
			continue
		}
		one, err := marshal(u)
		if err != nil {
			return nil, err
		}
		infos, err := l.Client.Build(strings.NewReader(one), false)
		if err != nil {
			return nil, err
		}
		list = append(list, infos...)
	}
	return list, nil
}

func marshal(u *unstructured.Unstructured) (string, error) {
	b, err := u.MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", u.GetName(), err)
	}
	return string(b), nil
}
