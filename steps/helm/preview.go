package helm

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/dryrun"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
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
	values, err := a.Values(ctx)
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
	v := &previewer{operation: o, live: reader{s}}
	p := &Preview{
		Namespace: o.Namespace, Name: o.ReleaseName, Revision: 1, Does: Installs,
		Chart: ch.Metadata.Name + " " + ch.Metadata.Version, Values: o.given(),
	}
	if o.last != nil {
		p.Before, p.ValuesBefore, p.Revision = chartOf(o.last), o.last.Config, o.last.Version+1
	}
	unchanged, err := o.unchanged()
	if err != nil {
		return nil, err
	}
	unchanged = unchanged && !o.options.ForceUpgrade
	if unchanged && o.last.Info.Status == engine.StatusDeployed {
		return p, v.unchanged(p)
	}
	o.resend = unchanged && o.last.Info.Status == engine.StatusFailed
	return p, v.next(p)
}

func chartOf(r *engine.Release) string {
	if r.Chart == nil || r.Chart.Metadata == nil {
		return ""
	}
	return r.Chart.Metadata.Name + " " + r.Chart.Metadata.Version
}

// previewer finds what an operation would do, and does none of it.
type previewer struct {
	*operation
	live reader
	// folder are the names of what the chart's crds folder has.
	folder map[string]bool
}

// unchanged finds what becomes of a release whose inputs did not change.
func (v *previewer) unchanged(p *Preview) error {
	resources, err := lenient{v.client}.Build(manifestOf(v.last), false)
	if err != nil {
		return fmt.Errorf("reading the release's objects: %w", err)
	}
	d, err := v.live.drift(v.ctx, v.last, resources)
	if err != nil {
		return err
	}
	if len(d.Gone) > 0 && v.Spec.Drift != plan.ReportDrift {
		v.resend = true
		return v.next(p)
	}
	p.Does, p.Revision = Nothing, v.last.Version
	if p.Rendered, err = charts.Decode(v.last.Manifest); err != nil {
		return err
	}
	v.Place(p.Rendered)
	p.Again = p.Rendered
	if v.Spec.Drift != plan.CorrectDrift && v.Spec.Drift != "" {
		return nil
	}
	v.live.confirm(v.ctx, d)
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

// next finds what a new revision would be, and what would become of the
// objects by it.
func (v *previewer) next(p *Preview) error {
	rel, err := v.rendered()
	if err != nil {
		return explain(err, v.Namespace)
	}
	before := v.deployed
	install := v.isFirst()
	events := []engine.HookEvent{engine.HookPreInstall, engine.HookPostInstall}
	if !install {
		p.Does, events = Upgrades, []engine.HookEvent{engine.HookPreUpgrade, engine.HookPostUpgrade}
		if before == nil {
			before = v.last
		}
	}
	for _, e := range events {
		for _, h := range rel.Hooks {
			if slices.Contains(h.Events, e) && !v.Spec.DisableHooks {
				p.Hooks = append(p.Hooks, string(e)+" "+h.Kind+"/"+h.Name)
			}
		}
	}
	if p.Rendered, err = v.objectsOf(rel, install); err != nil {
		return err
	}
	p.Again = p.Rendered
	if !v.resend {
		again, err := v.rendered()
		if err != nil {
			return explain(err, v.Namespace)
		}
		if p.Again, err = v.objectsOf(again, install); err != nil {
			return err
		}
	}
	return v.ask(p, before)
}

// rendered makes the next revision as Helm does, by its dry run with the cluster.
func (v *previewer) rendered() (*engine.Release, error) {
	if v.resend {
		return v.last, nil
	}
	ch, err := v.Source.Load(v.ctx) // Helm changes the one that it renders
	if err != nil {
		return nil, err
	}
	options, err := v.engineOptions()
	if err != nil {
		return nil, err
	}
	helm := v.Over(lenient{v.client}, v.records)
	if v.isFirst() {
		return helm.Install(ch, v.values, engine.Install{Sending: v.sending(), Name: v.ReleaseName, Namespace: v.Namespace, DryRun: true, Replace: v.last != nil, Options: options})
	}
	return helm.Upgrade(ch, v.values, engine.Upgrade{
		Sending: v.sending(), Name: v.ReleaseName, Namespace: v.Namespace, DryRun: true, Reuse: v.reuse(), Options: options,
	})
}

// objectsOf are a revision's objects, with those of the crds folder in an install.
func (v *previewer) objectsOf(r *engine.Release, install bool) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	crds := v.Spec.CRDPolicy()
	if (install && crds == plan.CreateCRDs || crds == plan.UpgradeCRDs) && r.Chart != nil {
		for _, crd := range r.Chart.CRDObjects() {
			found, err := charts.Decode(string(crd.File.Data))
			if err != nil {
				return nil, err
			}
			objects = append(objects, found...)
		}
	}
	v.folder = map[string]bool{}
	for _, u := range objects {
		v.folder[u.GetName()] = true
	}
	own, err := charts.Decode(r.Manifest)
	if err != nil {
		return nil, err
	}
	v.Place(own)
	for _, u := range own {
		mark(u, r)
	}
	return append(objects, own...), nil
}

// ask sends the objects of a revision as dry runs, each as Helm would send it.
func (v *previewer) ask(p *Preview, before *engine.Release) error {
	original := engine.ResourceList{}
	var err error
	if before != nil && before.Info.Status != engine.StatusUninstalled {
		if original, err = (lenient{v.client}).Build(manifestOf(before), false); err != nil {
			return fmt.Errorf("reading the objects of revision %d: %w", before.Version, err)
		}
	}
	p.Objects = make([]*dryrun.Object, len(p.Rendered))
	infos := make(engine.ResourceList, len(p.Rendered))
	errs := make([]error, len(p.Rendered))
	var sender dryrun.Sender
	dryrun.Each(len(p.Rendered), func(i int) {
		manifest := p.Rendered[i]
		planned := dryrun.Of(manifest)
		p.Objects[i] = planned
		infos[i], errs[i] = v.live.infoOf(v.ctx, manifest)
		if meta.IsNoMatchError(errs[i]) {
			errs[i] = nil
			planned.Guess(manifest, fmt.Sprintf("the cluster does not know the kind %s yet", planned.Kind.Kind))
			return
		}
		if errs[i] != nil {
			return
		}
		planned.Namespace = infos[i].Namespace
		if planned.Before, errs[i] = v.live.get(v.ctx, infos[i]); errs[i] != nil {
			return
		}
		sender.Ask(v.ctx, planned, manifest, func(ctx context.Context) (*unstructured.Unstructured, error) {
			return v.dry(ctx, original.Get(infos[i]), infos[i], manifest)
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
		live, err := v.live.get(v.ctx, info)
		if err != nil {
			return err
		}
		if live != nil && live.GetAnnotations()[engine.ResourcePolicyAnno] != engine.KeepPolicy {
			p.Objects = append(p.Objects, &dryrun.Object{Kind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name, Before: live})
		}
	}
	return nil
}

// dry sends one object as Helm would.
func (v *previewer) dry(ctx context.Context, before, info *resource.Info, manifest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if v.folder[info.Name] && kinds.IsDefinition(manifest) {
		return v.dryCRD(ctx, info, manifest)
	}
	own, err := v.client.over(ctx, info)
	if err != nil {
		return nil, err
	}
	own.Object = manifest.DeepCopy()
	var original engine.ResourceList
	if before != nil {
		original = engine.ResourceList{before}
	}
	if _, err := v.client.Client.Update(original, engine.ResourceList{own}, v.sending()); err != nil {
		return nil, single(err)
	}
	return unstructuredOf(own.Object)
}

// dryCRD sends one of the crds folder as the step says: one that is there is left as it is,
// or brought to what the chart has.
func (v *previewer) dryCRD(ctx context.Context, info *resource.Info, manifest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if v.Spec.CRDPolicy() != plan.UpgradeCRDs {
		live, err := v.live.get(ctx, info)
		if err != nil || live != nil {
			return live, err
		}
	}
	return v.client.session.Resource(info.Mapping, "").Apply(ctx, info.Name, manifest, metav1.ApplyOptions{
		FieldManager: manager, Force: true, DryRun: []string{metav1.DryRunAll},
	})
}

// lenient is a client that leaves out objects whose kind the cluster does not know
// yet, rather than to wait for it.
type lenient struct{ *client }

// Build implements engine.Client.
func (l lenient) Build(r io.Reader, _ bool) (engine.ResourceList, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	objects, err := charts.Decode(string(text))
	if err != nil {
		return nil, err
	}
	known := map[schema.GroupVersionKind]error{}
	var list engine.ResourceList
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
