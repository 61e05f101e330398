package analyze

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// Fetch has a store get all that the steps of a plan refer to elsewhere, and nothing
// else: see source.Store.Fetched. Of the steps that only is true of; nil means all.
// Steps that are skipped refer to nothing. It returns a note on each reference that is known only
// when the step runs; the error joins those of all steps.
func Fetch(ctx context.Context, p *plan.Plan, from *source.Store, only func(plan.Step) bool) (later []string, err error) {
	errs := make([]error, len(p.Steps))
	var group errgroup.Group // its goroutines end with what they fetch, or the context
	group.SetLimit(atOnce)
	for i, s := range p.Steps {
		if s.Skip != "" || only != nil && !only(s) {
			continue
		}
		if field := unknownField(s); field != "" {
			later = append(later, fmt.Sprintf("step %q: %s is known only when the step runs", s.Name, field))
			continue
		}
		group.Go(func() error {
			if err := fetch(ctx, s, from); err != nil {
				errs[i] = runner.WithHint(fmt.Errorf("step %q: %w", s.Name, err), runner.HintOf(err))
			}
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return later, errors.Join(errs...)
}

// fetch gets what one step refers to.
func fetch(ctx context.Context, s plan.Step, from *source.Store) error {
	switch s.Kind() {
	case plan.KindHelm:
		chart, err := charts.New(s, metav1.NamespaceDefault, from)
		if err != nil {
			return err
		}
		_, err = chart.Source.Load(ctx)
		if err != nil && s.Helm.IsLocal() { // such as a dependency that is not there
			return err
		}
		_, valuesErr := chart.Values(ctx)
		return errors.Join(err, valuesErr)
	case plan.KindApply, plan.KindDelete:
		_, err := manifest.Read(ctx, s, from)
		return err
	case plan.KindWait, plan.KindWebhook, plan.KindInclude:
	}
	return nil
}

// ChartFiles returns the absolute paths of the files that Helm loads of a step's local
// chart.
func ChartFiles(s plan.Step) ([]string, error) { return charts.Files(s.Path(s.Helm.Chart)) }

// unknownField returns which field that says what is fetched has no value yet; "" for
// none. Such fields are empty until the step is bound.
func unknownField(s plan.Step) string {
	if s.Helm == nil || len(s.Deferred()) == 0 {
		return ""
	}
	for field, value := range map[string]string{"chart": s.Helm.Chart, "version": s.Helm.Version, "repo": s.Helm.Repo} {
		if value != "" || s.Origin.Text == nil {
			continue
		}
		if n := s.Origin.Text.Find(append(append([]any{}, s.Origin.At...), "helm", field)...); n != nil && strings.Contains(n.Value, "${{") {
			return "helm." + field
		}
	}
	return ""
}
