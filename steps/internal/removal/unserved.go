package removal

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/transport"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
	"github.com/kplan-dev/kplan/webhook/survey"
)

const (
	// brokenLabel marks webhook configurations that kplan lets everything pass, and
	// policiesAnnotation has what they were.
	brokenLabel        = "kplan.dev/broken"
	policiesAnnotation = "kplan.dev/failure-policies"
	// mending bounds how long the restoring of configurations may take; it is done
	// when the step has ended, too.
	mending = 10 * time.Second
)

var configurations = map[webhook.Kind]schema.GroupVersionResource{
	webhook.Validating: admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"),
	webhook.Mutating:   admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"),
}

// closed are the webhooks without whose answer requests fail, as far as they are
// known by now.
func (b *blocks) closed() []survey.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	view := b.Session.Cluster.Survey
	if view == nil {
		return nil
	}
	if b.webhooks == nil {
		b.webhooks = view.Subscribe(survey.Target{Match: func(e webhook.Entry) bool {
			return e.Kind == webhook.Conversion || e.FailurePolicy == admissionv1.Fail
		}}, func() {})
	}
	if !b.webhooks.Synced() {
		return nil
	}
	return b.webhooks.Statuses()
}

// unserved reports whether nobody is there to serve a webhook, nor about to be, and
// says why.
func unserved(st survey.Status) (why string, dead bool) {
	b := st.Backing
	if b == nil || len(b.Unread) > 0 {
		return "", false
	}
	if b.Service == nil {
		return fmt.Sprintf("its Service %s does not exist", st.Service()), true
	}
	if len(b.Pods) > 0 || len(b.Service.Spec.Selector) == 0 {
		return "", false
	}
	for _, w := range b.Workloads {
		if w.Replicas > 0 {
			return "", false
		}
	}
	if len(b.Workloads) == 0 {
		return fmt.Sprintf("nothing makes the pods of its Service %s", st.Service()), true
	}
	return fmt.Sprintf("%s behind its Service %s is scaled to 0", b.Workloads[0].Object, st.Service()), true
}

// asks reports whether the API server asks a webhook before it updates an object.
func (b *blocks) asks(ctx context.Context, st survey.Status, o Object) bool {
	if st.Kind == webhook.Conversion {
		return st.Converts == o.Mapping.GroupVersionKind.GroupKind()
	}
	m := match.Matcher{Cluster: match.Cluster{Labels: b.Session.Cluster.Labels(ctx)}}
	v := m.Match(ctx, st.Entry, match.Request{
		Operation: admissionv1.Update, Resource: o.Mapping.Resource, Kind: o.Mapping.GroupVersionKind,
		Namespace: o.GetNamespace(), Name: o.GetName(), Object: o.Unstructured, OldObject: o.Unstructured,
	})
	return v.Outcome == match.Calls
}

// blockedBy says that a webhook which nobody serves keeps an object, or breaks it.
func (b *blocks) blockedBy(ctx context.Context, object string, st survey.Status, why string) error {
	source := st.Source()
	switch {
	case st.Kind == webhook.Conversion:
		return &BlockedError{object, fmt.Sprintf("the %s cannot be called: %s", st.Entry, why), "start its operator again: nothing else can read the objects of this kind"}
	case !b.BreakWebhooks:
		return &BlockedError{
			object, fmt.Sprintf("the %s cannot be called: %s", st.Entry, why),
			fmt.Sprintf("start its operator again; or let requests pass that it would judge: kplan down --break-webhooks, or kubectl delete %s %s",
				strings.ToLower(source.Kind), source.Name),
		}
	}
	b.mu.Lock()
	_, done := b.broken[source.String()]
	b.broken[source.String()] = broken{configurations[st.Kind], st.Configuration}
	b.mu.Unlock()
	if err := b.breakOne(ctx, configurations[st.Kind], st.Configuration); err != nil {
		return &BlockedError{object, fmt.Sprintf("the %s cannot be called, and %s cannot be changed: %v", st.Entry, source, err), ""}
	}
	if done { // another step had broken it too, and has restored it
		return nil
	}
	b.Reporter.Report(runner.Report{Type: runner.TypeLog, Message: fmt.Sprintf("%s: %s; its failurePolicy is Ignore until this step has ended", source, why)})
	return nil
}

// broken is a webhook configuration that lets everything pass.
type broken struct {
	resource schema.GroupVersionResource
	name     string
}

// breakOne sets the failure policy of every webhook of a configuration to Ignore, and
// writes down what they were.
func (b *blocks) breakOne(ctx context.Context, resource schema.GroupVersionResource, name string) error {
	return b.edit(ctx, resource, name, func(u *unstructured.Unstructured) error {
		if u.GetAnnotations()[policiesAnnotation] != "" {
			return nil // by a run that was killed
		}
		before := map[string]string{}
		err := eachWebhook(u, func(w map[string]any) {
			name, _ := w["name"].(string)
			before[name], _ = w["failurePolicy"].(string)
			w["failurePolicy"] = string(admissionv1.Ignore)
		})
		if err != nil {
			return err
		}
		text, err := json.Marshal(before)
		if err != nil {
			return err
		}
		annotations, labels := u.GetAnnotations(), u.GetLabels()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if labels == nil {
			labels = map[string]string{}
		}
		annotations[policiesAnnotation], labels[brokenLabel] = string(text), "true"
		u.SetAnnotations(annotations)
		u.SetLabels(labels)
		return nil
	})
}

// restore gives the broken configurations back what they were, also when the step
// was ended.
func (b *blocks) restore(ctx context.Context) {
	b.mu.Lock()
	all := slices.Collect(maps.Values(b.broken))
	b.mu.Unlock()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(transport.PastEnd(context.WithoutCancel(ctx)), mending, context.DeadlineExceeded)
	defer cancel()
	for _, c := range all {
		b.mend(ctx, c)
	}
}

// mend gives one configuration back what it was.
func (b *Remover) mend(ctx context.Context, c broken) {
	err := b.edit(ctx, c.resource, c.name, func(u *unstructured.Unstructured) error {
		annotations, labels := u.GetAnnotations(), u.GetLabels()
		before := map[string]string{}
		if err := json.Unmarshal([]byte(annotations[policiesAnnotation]), &before); err != nil {
			return nil // somebody else has restored it
		}
		delete(annotations, policiesAnnotation)
		delete(labels, brokenLabel)
		u.SetAnnotations(annotations)
		u.SetLabels(labels)
		return eachWebhook(u, func(w map[string]any) {
			name, _ := w["name"].(string)
			if policy := before[name]; policy != "" {
				w["failurePolicy"] = policy
			}
		})
	})
	switch {
	case apierrors.IsNotFound(err): // it has gone with the rest
	case err != nil:
		b.Reporter.Report(runner.Report{Type: runner.TypeLog, Message: fmt.Sprintf(
			"warning: %s %s could not be restored: %v; its annotation %s has the failure policies as they were", c.resource.Resource, c.name, err, policiesAnnotation)})
	default:
		b.Reporter.Report(runner.Report{Type: runner.TypeLog, Message: c.resource.Resource + " " + c.name + ": its failure policies are as they were"})
	}
}

// Mend restores the webhook configurations that a run left broken which was killed.
func (b *Remover) Mend(ctx context.Context) {
	for _, resource := range configurations {
		list, err := b.Session.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: brokenLabel})
		if err != nil {
			continue // who may not list them has not broken them
		}
		for _, u := range list.Items {
			b.mend(ctx, broken{resource, u.GetName()})
		}
	}
}

// edit changes a cluster-scoped object, again if somebody else does at that moment.
func (b *Remover) edit(ctx context.Context, resource schema.GroupVersionResource, name string, change func(*unstructured.Unstructured) error) error {
	client := b.Session.Dynamic.Resource(resource)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		u, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := change(u); err != nil {
			return err
		}
		_, err = client.Update(ctx, u, metav1.UpdateOptions{FieldManager: "kplan"})
		return err
	})
}

// eachWebhook calls change with each webhook of a configuration.
func eachWebhook(u *unstructured.Unstructured, change func(map[string]any)) error {
	list, _, err := unstructured.NestedSlice(u.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, item := range list {
		if w, ok := item.(map[string]any); ok {
			change(w)
		}
	}
	return unstructured.SetNestedSlice(u.Object, list, "webhooks")
}
