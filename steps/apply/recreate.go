package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// fixed are words of the refusals to change a field that an object keeps for life
// (k8s.io/kubernetes pkg/apis/*/validation, and what definitions say by habit).
var fixed = []string{"immutable", "may not change", "cannot change", "may not be changed", "cannot be changed", "are forbidden", "is forbidden after", "Forbidden: "}

// storage are the kinds with whose objects data may go.
var storage = map[schema.GroupKind]bool{{Kind: "PersistentVolumeClaim"}: true, {Kind: "PersistentVolume"}: true}

// isImmutable reports whether an object was refused because what changed in it cannot.
func isImmutable(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return slices.ContainsFunc(fixed, func(words string) bool { return strings.Contains(c.Message, words) })
	})
}

// recreate deletes an object whose change was refused, so that it can be made anew. It
// says whether it did. Before it does it has the API server check that the new one would
// be admitted.
func (s *sender) recreate(ctx context.Context, it *item, refused error) (bool, error) {
	if it.before == nil || !isImmutable(refused) {
		return false, nil
	}
	if s.spec.OnImmutable != plan.RecreateImmutable {
		return false, runner.WithHint(s.explain(ctx, it, "patch", refused),
			"that field cannot be changed once the object exists: delete the object, give it another name, or have it made anew with on_immutable: recreate")
	}
	if it.Kind() == namespaceKind || kinds.IsDefinition(it.Unstructured) || storage[it.Kind()] {
		return false, runner.WithHint(s.explain(ctx, it, "patch", refused),
			"on_immutable: recreate leaves namespaces, definitions and volumes alone: all that is in them would be deleted too")
	}
	_, err := it.client.Create(ctx, it.DeepCopy(), metav1.CreateOptions{FieldManager: fieldManager, DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("is not made anew, since it would be refused: %w", s.explain(ctx, it, "create", err))
	}
	s.reporter.log(fmt.Sprintf("%s is deleted and made anew: %s", it.ID(), it.refusal(refused)))
	remover := &removal.Remover{Session: s.session, Reporter: quiet{s.reporter}}
	if err := remover.Remove(ctx, []removal.Object{{Unstructured: it.before, Mapping: it.mapping}}); err != nil {
		return false, err
	}
	it.before = nil
	return true, nil
}

// refusal is what the API server said of the fields alone; of a Secret only which they are.
func (it *item) refusal(err error) string {
	var all []string
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		for _, c := range status.Status().Details.Causes {
			if it.Kind() == secretKind {
				all = append(all, c.Field+" cannot be changed")
				continue
			}
			message, _, _ := strings.Cut(c.Message, "{") // a whole pod template says nothing more
			all = append(all, c.Field+": "+strings.TrimSuffix(strings.TrimSpace(message), ":"))
		}
	}
	return strings.Join(all, "; ")
}

// quiet passes on what a removal logs. Its progress counts other objects than the step's.
type quiet struct{ runner.Reporter }

// Report implements runner.Reporter.
func (q quiet) Report(report runner.Report) {
	report.Done, report.Total = 0, 0
	q.Reporter.Report(report)
}
