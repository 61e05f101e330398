package helm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// notImported is what Helm says of an object that is not the release's.
const notImported = "cannot be imported into the current release"

// ForeignHint is what to do about an object of a chart that is somebody else's.
const ForeignHint = "take_ownership: true makes it this release's; else delete it, or leave it out of one of the charts"

// failed makes the step's error, and does with the release what the step says.
func (o *operation) failed(err error) error {
	if stop := context.Cause(o.ctx); stop != nil && !isTimeout(stop) {
		// What Helm makes of its ended requests helps nobody.
		return fmt.Errorf("release %s/%s is recorded as it is and may be run again: %w", o.Namespace, o.ReleaseName, stop)
	}
	causes := []error{err} // with those that Helm kept only the text of
	if f := o.client.failure; f != nil && !errors.Is(err, f) && strings.Contains(err.Error(), f.Error()) {
		causes = append(causes, f)
	}
	if o.ctx.Err() != nil {
		causes = append(causes, context.Cause(o.ctx))
	}
	if strings.Contains(err.Error(), notImported) {
		if foreign := o.foreigners(); foreign != nil {
			return foreign
		}
	}
	text := charts.WithoutValues(err.Error())
	if refused := o.Refused(o.chart, text); len(refused) > 0 {
		text = charts.RefusedError(refused).Error()
	}
	out := explain(kubeerr.Reword(clean.Line(text), causes...), o.Namespace)
	if o.records.made == nil {
		return out
	}
	return o.undone(out)
}

func isTimeout(err error) bool {
	var t *runner.TimeoutError
	return errors.As(err, &t)
}

// explain adds hints, and marks what another attempt cannot mend.
func explain(err error, namespace string) error {
	text := err.Error()
	switch {
	case strings.Contains(text, notImported):
		return runner.WithHint(runner.Permanent(err), ForeignHint)
	case strings.Contains(text, charts.SchemaFault),
		strings.Contains(text, "execution error at ("), strings.Contains(text, "parse error at ("),
		strings.Contains(text, "error converting YAML to JSON"), strings.Contains(text, "nil pointer evaluating"):
		return runner.WithHint(runner.Permanent(err), "check the step's values against the chart's: helm show values")
	case strings.Contains(text, "is incompatible with Kubernetes"):
		return runner.Permanent(err)
	}
	return kubeerr.Explain(err, kubeerr.Op{Namespace: namespace})
}

// cause prefers the reason for which a context ended to what a client made of it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// busy reports whether a revision is in the middle of something.
func busy(s engine.Status) bool { return s.IsPending() || s == engine.StatusUninstalling }

// pendingError says that the newest of a release's revisions is in the middle
// of something.
func pendingError(r *engine.Release) error {
	err := fmt.Errorf("release %s/%s revision %d is %s since %s: another run works on it, or one was killed",
		r.Namespace, r.Name, r.Version, r.Info.Status, r.Info.LastDeployed.Format("2006-01-02 15:04:05 MST"))
	return runner.WithHint(runner.Permanent(err), "if nobody works on it any more, kplan run --take-over goes on with it")
}

// secretsOf are the Secrets among resources, as they are before Helm puts the
// API server's answers in their place.
func secretsOf(resources engine.ResourceList) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, info := range resources {
		if gk := info.Mapping.GroupVersionKind.GroupKind(); gk.Group != "" || gk.Kind != "Secret" {
			continue
		}
		if o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object); err == nil {
			u := (&unstructured.Unstructured{Object: o}).DeepCopy()
			u.SetGroupVersionKind(info.Mapping.GroupVersionKind)
			out = append(out, u)
		}
	}
	return out
}

// withoutSecrets takes the data of Secrets out of an error, unless it is known
// to be about another object.
func withoutSecrets(err error, secrets []*unstructured.Unstructured) error {
	for _, u := range secrets {
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			d := status.Status().Details
			if d != nil && (d.Kind != "" && d.Kind != "Secret" && d.Kind != "secrets" || d.Name != "" && d.Name != u.GetName()) {
				continue
			}
		}
		err = kubeerr.Redact(err, u)
	}
	return err
}
