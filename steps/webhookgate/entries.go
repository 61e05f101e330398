package webhookgate

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

var (
	mutating    = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	validating  = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// entries waits until the webhooks that are meant exist, and all that may
// configure some were read. What may not be read ends the wait.
func (a *run) entries(ctx context.Context, v *view) ([]webhook.Entry, error) {
	told := false
	for {
		changed := v.next()
		if err := a.readable(ctx); err != nil {
			return nil, err
		}
		// What is known is asked last: it can only be more by then.
		synced := v.Synced()
		hidden := cmp.Or(a.unread(mutating), a.unread(validating), a.failed(definitions))
		if synced && hidden == "" {
			if mine := configured(v); len(mine) > 0 || a.spec.All {
				return mine, nil
			}
			if !told {
				told = true
				a.reporter.Report(runner.Report{Type: runner.TypeProgress, Message: a.target.what + ": there is none yet"})
			}
		}
		if err := changed(ctx); err != nil {
			last := cmp.Or(hidden, a.unread(definitions), "there is none")
			return nil, diagnosis.TimedOut(err, a.target.what+" to be configured", string(webhook.Configured)+": "+clean.Line(last), a.target.hint)
		}
	}
}

// configured are the webhooks that are meant, as far as they are known.
func configured(v *view) []webhook.Entry {
	var mine []webhook.Entry
	for _, st := range v.Statuses() {
		mine = append(mine, st.Entry)
	}
	return mine
}

// readable is an error if the configurations of webhooks may not be listed: a step
// that sees some of the webhooks has not shown that all of them answer, and
// waiting brings no rights. Errors that may pass are none.
func (a *run) readable(ctx context.Context) error {
	for _, gvr := range []schema.GroupVersionResource{mutating, validating} {
		if _, denied := a.survey.Unlisted(gvr); !denied {
			continue
		}
		_, err := a.session.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return fmt.Errorf("finding %s: %w", a.target.what, kubeerr.Explain(err, kubeerr.Op{Verb: "list", Resource: gvr.GroupResource()}))
		}
	}
	return nil
}

// unread is why objects of a resource that configures webhooks cannot be read; ""
// when they can, when the step does not want them, and before that was tried.
func (a *run) unread(gvr schema.GroupVersionResource) string {
	if gvr == definitions && !a.target.conversions {
		return "" // another step may want them
	}
	why, _ := a.survey.Unlisted(gvr)
	return why
}

// failed is as unread, without what may not be read: waiting does not mend that.
func (a *run) failed(gvr schema.GroupVersionResource) string {
	if _, denied := a.survey.Unlisted(gvr); denied {
		return ""
	}
	return a.unread(gvr)
}

// view is what a step follows of the survey, for many goroutines that wait.
type view struct {
	*survey.Subscription
	// wants tells which webhooks are followed.
	wants func(webhook.Entry) bool

	mu sync.Mutex
	// changes is closed, and made anew, with every change.
	changes chan struct{}
}

// follow begins to follow what the step means.
func (a *run) follow(wants func(webhook.Entry) bool) *view {
	v := &view{wants: wants, changes: make(chan struct{})}
	v.Subscription = a.survey.Subscribe(survey.Target{Match: wants, Conversions: a.target.conversions}, v.changed)
	return v
}

func (v *view) changed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.changes)
	v.changes = make(chan struct{})
}

// next returns a function that waits for the first change after now.
func (v *view) next() func(context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	changes := v.changes
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changes:
			return nil
		}
	}
}
