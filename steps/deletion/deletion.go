// Package deletion is the delete step: it deletes objects, or uninstalls a release,
// and waits until they are gone.
//
// It does not decide in what order objects go, nor what is in the way of one that
// does not: package removal does.
package deletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// Options say how objects are deleted that do not go by themselves.
type Options = removal.Options

// Action deletes what one step names.
type Action struct {
	step      plan.Step
	spec      plan.Delete
	sources   *source.Store
	objects   []manifest.Object // nil until they were fetched
	namespace string
	options   Options
}

// New reads the files of a delete step from a store; namespace is that of objects for
// which neither they nor the step name one. The cluster is asked in Run only, and what is
// not on this machine is fetched there.
func New(step plan.Step, namespace string, o Options, from *source.Store) (*Action, error) {
	spec := *step.Delete
	o.Forget = spec.Wait != nil && !*spec.Wait
	a := &Action{step: step, spec: spec, sources: from, namespace: cmp.Or(spec.Namespace, namespace), options: o}
	if spec.Resource != "" {
		if _, err := labels.Parse(spec.Selector); err != nil {
			return nil, runner.Permanent(fmt.Errorf("selector %q: %w", spec.Selector, err))
		}
		return a, nil
	}
	if source.Fetches(step) {
		return a, nil
	}
	return a, a.read(context.Background())
}

// read reads the step's objects, once.
func (a *Action) read(ctx context.Context) error {
	if a.objects != nil || a.spec.Resource != "" {
		return nil
	}
	objects, err := manifest.Read(ctx, a.step, a.sources)
	if err != nil {
		return err
	}
	if err := manifest.CheckDuplicates(objects, a.namespace); err != nil {
		return runner.Permanent(err)
	}
	if len(objects) == 0 && a.spec.Release == "" && len(a.spec.Leftovers) == 0 {
		return runner.Permanent(errors.New("there is no object to delete"))
	}
	a.objects = objects
	return nil
}

// Run deletes, and waits until all is gone.
func (a *Action) Run(ctx context.Context, s *cluster.Session, r runner.Reporter) error {
	if a.spec.Release != "" {
		u := helm.Uninstall{Options: a.options, Name: a.spec.Release, Namespace: a.namespace, CRDs: a.spec.DeleteCRDs, Beside: a.spec.Beside}
		return u.Run(ctx, s, r)
	}
	found, err := a.find(ctx, s)
	if err != nil {
		return err
	}
	empty, kept, err := a.empty(ctx, s)
	if err != nil {
		return err
	}
	found = append(found, empty...)
	remover := &removal.Remover{Options: a.options, Session: s, Reporter: r}
	remover.Mend(ctx)
	for _, k := range kept {
		r.Report(runner.Report{Type: runner.TypeLog, Message: k.Object + " stays: " + k.Reason})
	}
	if err := remover.Remove(ctx, found); err != nil {
		return err
	}
	r.Report(runner.Report{
		Type: runner.TypeResult, Message: a.summary(len(found), kept), Done: len(found), Total: len(found), Unchanged: len(found) == 0,
	})
	return nil
}

// find reads which of the objects are there.
func (a *Action) find(ctx context.Context, s *cluster.Session) ([]removal.Object, error) {
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	if a.spec.Resource == "" {
		return removal.Find(ctx, s, manifest.Bare(a.objects), a.namespace)
	}
	kind, name, _ := strings.Cut(a.spec.Resource, "/")
	m, err := s.Cluster.MappingFor(ctx, kind)
	switch {
	case meta.IsNoMatchError(err):
		return nil, nil // a kind that is not there has no objects
	case err != nil:
		return nil, kubeerr.Explain(err, kubeerr.Op{})
	}
	all, err := removal.List(ctx, s, m, a.namespace, a.spec.Selector)
	if err != nil || name == "" {
		return all, err
	}
	for _, o := range all {
		if o.GetName() == name {
			return []removal.Object{o}, nil
		}
	}
	return nil, nil
}

func (a *Action) summary(gone int, kept []removal.Kept) string {
	var parts []string
	switch named := len(a.objects); {
	case gone > 0:
		parts = append(parts, fmt.Sprintf("%d deleted", gone))
	case named > 0 || a.spec.Resource != "":
		parts = append(parts, "nothing is there")
	}
	if absent := len(a.objects) + len(a.spec.Leftovers) - gone - len(kept); absent > 0 && gone > 0 {
		parts = append(parts, fmt.Sprintf("%d not there", absent))
	}
	if len(kept) > 0 {
		parts = append(parts, fmt.Sprintf("%d kept", len(kept)))
	}
	return strings.Join(parts, ", ")
}
