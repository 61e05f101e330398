package helm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kube"
)

// releaseError is what Helm says, with the error that it kept only the text of.
type releaseError struct {
	text   string
	causes []error
}

func (e *releaseError) Error() string   { return e.text }
func (e *releaseError) Unwrap() []error { return e.causes }

// failed makes the step's error, and does with the release what the step says.
func (o *operation) failed(rel *release.Release, err error) error {
	if stop := context.Cause(o.ctx); stop != nil && !isTimeout(stop) {
		// What Helm makes of its ended requests helps nobody.
		return fmt.Errorf("release %s/%s is recorded as it is and may be run again: %w", o.namespace, o.release, stop)
	}
	wrapped := &releaseError{text: kube.Plain(err.Error()), causes: []error{err}}
	if f := o.client.failure; f != nil && !errors.Is(err, f) && strings.Contains(err.Error(), f.Error()) {
		wrapped.causes = append(wrapped.causes, f)
	}
	if o.ctx.Err() != nil {
		wrapped.causes = append(wrapped.causes, context.Cause(o.ctx))
	}
	out := explain(wrapped, o.namespace)
	if o.unchanged || rel == nil {
		return out
	}
	if undone := o.undo(); undone != nil {
		return errors.Join(out, undone)
	}
	return out
}

func isTimeout(err error) bool {
	var t *runner.TimeoutError
	return errors.As(err, &t)
}

// explain adds hints, and marks what another attempt cannot mend.
func explain(err error, namespace string) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "cannot be imported into the current release"):
		return runner.WithHint(runner.Permanent(err), "the object exists and belongs to something else: delete it, or label and annotate it as the release's")
	case strings.Contains(text, "values don't meet the specifications of the schema"),
		strings.Contains(text, "execution error at ("), strings.Contains(text, "parse error at ("),
		strings.Contains(text, "error converting YAML to JSON"), strings.Contains(text, "nil pointer evaluating"):
		return runner.WithHint(runner.Permanent(err), "check the step's values against the chart's: helm show values")
	case strings.Contains(text, "is incompatible with Kubernetes"):
		return runner.Permanent(err)
	}
	return kube.Explain(err, kube.Op{Namespace: namespace})
}

// cause prefers the reason for which a context ended to what a client made of it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pendingError says that a release is in the middle of something.
func pendingError(r *release.Release) error {
	err := fmt.Errorf("release %s/%s revision %d is %s since %s: another run works on it, or one was killed",
		r.Namespace, r.Name, r.Version, r.Info.Status, r.Info.LastDeployed.Format("2006-01-02 15:04:05 MST"))
	fix := fmt.Sprintf("helm rollback %s -n %s", r.Name, r.Namespace)
	if r.Version == 1 {
		fix = fmt.Sprintf("helm uninstall %s -n %s", r.Name, r.Namespace)
	}
	return runner.WithHint(runner.Permanent(err), "if nobody works on it any more: "+fix+", then run the plan again")
}

// undo rolls back or uninstalls after a failure, when the step asks for it. It
// has time of its own, since the step's may be over.
func (o *operation) undo() error {
	if o.spec.OnFailure != plan.RollbackRelease && o.spec.OnFailure != plan.UninstallRelease {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(o.ctx), cleanup,
		&runner.TimeoutError{After: cleanup, For: "the release to be undone"})
	defer cancel()
	// The step's own line ends with the step; this goes past it, and is held for no webhook.
	session, err := o.session.Cluster.Session(kube.Options{})
	if err != nil {
		return err
	}
	a := *o.Action
	a.session = session
	config, _, err := a.connect(ctx, o.reporter)
	if err != nil {
		return err
	}
	deployed, err := config.Releases.Deployed(o.release)
	switch {
	case err == nil && o.spec.OnFailure == plan.RollbackRelease:
		o.reporter.Report(runner.Report{Type: runner.TypeProgress, Message: fmt.Sprintf("rolling back to revision %d", deployed.Version)})
		r := action.NewRollback(config)
		r.Version, r.Wait, r.Timeout, r.MaxHistory = deployed.Version, true, cleanup, history
		if err := r.Run(o.release); err != nil {
			return fmt.Errorf("rolling back to revision %d: %w", deployed.Version, err)
		}
	case err != nil && o.spec.OnFailure == plan.UninstallRelease:
		o.reporter.Report(runner.Report{Type: runner.TypeProgress, Message: "uninstalling the release, which was never deployed"})
		u := action.NewUninstall(config)
		u.Wait, u.Timeout = true, cleanup
		if _, err := u.Run(o.release); err != nil {
			return fmt.Errorf("uninstalling: %w", err)
		}
	}
	return nil
}
