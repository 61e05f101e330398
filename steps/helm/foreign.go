package helm

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
)

// Foreign tells which objects of the chart's templates exist and are not the
// release's: Helm refuses to send any while there are such ones. Those that the
// release has already are not looked at, nor are hooks and the crds folder, all
// as by Helm (helm.sh/helm/v3 pkg/action/validate.go).
func (a *Action) Foreign(ctx context.Context, s *cluster.Session, has charts.Capabilities) ([]string, error) {
	if a.Spec.TakeOwnership {
		return nil, nil
	}
	all, err := a.installed(ctx, s)
	if err != nil {
		return nil, err
	}
	rel, err := a.DryRelease(ctx, has, false)
	if err != nil {
		return nil, err
	}
	objects, err := charts.Decode(rel.Manifest)
	if err != nil {
		return nil, err
	}
	had, err := a.had(all)
	if err != nil {
		return nil, err
	}
	a.Place(objects)
	var (
		group errgroup.Group
		said  = make([]string, len(objects))
	)
	group.SetLimit(lookups)
	for i, o := range objects {
		if had[watch.TargetOf(o)] {
			continue
		}
		group.Go(func() (err error) {
			said[i], err = a.foreign(ctx, s, o)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var found []string
	for _, text := range said {
		if text != "" {
			found = append(found, text)
		}
	}
	return found, nil
}

// had are the objects of the revision that an upgrade starts from: the deployed
// one, else the last.
func (a *Action) had(all history) (map[watch.Target]bool, error) {
	from := cmp.Or(all.deployed(), all.last())
	had := map[watch.Target]bool{}
	if from == nil || from.Info.Status == engine.StatusUninstalled {
		return had, nil
	}
	objects, err := charts.Decode(from.Manifest)
	if err != nil {
		return nil, err
	}
	a.Place(objects)
	for _, o := range objects {
		had[watch.TargetOf(o)] = true
	}
	return had, nil
}

// foreign says whose an object is that exists and is not the release's; "" otherwise.
func (a *Action) foreign(ctx context.Context, s *cluster.Session, o *unstructured.Unstructured) (string, error) {
	mapping, err := s.Cluster.Mapping(ctx, o.GroupVersionKind())
	if meta.IsNoMatchError(err) {
		return "", nil // there are no such objects
	}
	target := watch.TargetOf(o)
	if err == nil {
		if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			target.Namespace = ""
		}
		o, err = s.Resource(mapping, o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		op := kubeerr.Op{Verb: "get", Namespace: target.Namespace}
		if mapping != nil {
			op.Resource = mapping.Resource.GroupResource()
		}
		return "", kubeerr.Explain(fmt.Errorf("reading %s: %w", target.Object(), cause(ctx, err)), op)
	}
	own := a.Namespace + "/" + a.ReleaseName
	is := "belongs to no Helm release"
	switch owner := webhook.OwnerOf(o).Release; {
	case owner == own && o.GetLabels()[managedBy] == "Helm":
		return "", nil
	case owner == own:
		is = fmt.Sprintf("has the label %s: %s", managedBy, cmp.Or(o.GetLabels()[managedBy], "(none)"))
	case owner != "":
		is = "belongs to Helm release " + owner
	}
	return fmt.Sprintf("%s exists and %s: the release %s cannot have it", target.Object(), is, own), nil
}

// foreigners tells of all objects that Helm was about to send whose they are, if they are
// not the release's: Helm names the first one. It is nil when there is none, or that cannot
// be told.
func (o *operation) foreigners() error {
	had, err := o.had(o.all)
	if err != nil {
		return nil
	}
	var said []string
	for _, info := range o.client.checked {
		u, err := contentOf(info)
		if err != nil || had[watch.TargetOf(u)] {
			continue
		}
		if text, err := o.foreign(o.ctx, o.client.session, u); err == nil && text != "" {
			said = append(said, text)
		}
	}
	if len(said) == 0 {
		return nil
	}
	return runner.WithHint(runner.Permanent(fmt.Errorf("objects cannot be imported into the current release: %s", some(said))), ForeignHint)
}

// managedBy is the label without which Helm takes no object for its own.
const managedBy = "app.kubernetes.io/managed-by"

// Clash tells of which other chart the release is that is installed under the
// step's name; "" when there is none, or when it is of the step's chart.
func (a *Action) Clash(ctx context.Context, s *cluster.Session) (string, error) {
	ch, err := a.Source.Load(ctx)
	if err != nil {
		return "", err
	}
	all, err := a.installed(ctx, s)
	if err != nil {
		return "", err
	}
	for _, r := range all {
		if r.Chart != nil && r.Chart.Metadata != nil && r.Chart.Metadata.Name != ch.Metadata.Name {
			return r.Chart.Metadata.Name, nil
		}
	}
	return "", nil
}

// installed reads the history of the step's release, which nothing is done to.
func (a *Action) installed(ctx context.Context, s *cluster.Session) (history, error) {
	conn, err := a.connect(ctx, s, silent{})
	if err != nil {
		return nil, err
	}
	return a.history(ctx, conn)
}

// silent reports to nobody.
type silent struct{}

// Report implements runner.Reporter.
func (silent) Report(runner.Report) {}
