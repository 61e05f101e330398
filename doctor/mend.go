package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/plan/finding"
)

// Change is what mends a finding: an object as it is, and as it is to be. Taking it back
// leaves the object as it was.
type Change struct {
	// Finding is the ID of the finding.
	Finding string
	// Resource is the object's.
	Resource schema.GroupVersionResource
	// Before is the object as it is, and After as it is to be; nil deletes it.
	Before, After *unstructured.Unstructured
}

// The errors of changes.
var (
	// ErrNoRemedy says that nothing is known that mends a finding and can be taken back.
	ErrNoRemedy = errors.New("nothing safe is known that mends it")
	// ErrNoRecord says that no change of a finding is recorded.
	ErrNoRecord = errors.New("no change is recorded for it")
	// ErrChanged says that an object is not any more as it was looked at, or left.
	ErrChanged = errors.New("the object was changed meanwhile")
)

// Mend returns what mends a finding. The error is ErrNoRemedy when its check knows
// nothing.
func (c *Cluster) Mend(ctx context.Context, f finding.Finding) (Change, error) {
	i := slices.IndexFunc(Checks(), func(check Check) bool { return check.ID == f.Rule })
	if i < 0 || Checks()[i].mend == nil {
		return Change{}, ErrNoRemedy
	}
	change, err := Checks()[i].mend(ctx, c, f)
	change.Finding = f.ID()
	return change, err
}

const (
	// changeLabel marks the records of changes; its value is that of the record's name.
	changeLabel = "kplan.dev/doctor"
	// recordManager is the field manager of records and changes.
	recordManager = "kplan-doctor"
)

// record is a change as a ConfigMap has it.
type record struct {
	Finding   string                      `json:"finding"`
	Resource  schema.GroupVersionResource `json:"resource"`
	Namespace string                      `json:"namespace,omitempty"`
	Name      string                      `json:"name"`
	At        time.Time                   `json:"at"`
	By        string                      `json:"by,omitempty"`
	Before    json.RawMessage             `json:"before"`
	After     json.RawMessage             `json:"after,omitempty"`
}

// Apply records a change in a namespace, which is made if it is missing, and makes it.
// The error is ErrChanged when the object is not as Before any more: nothing is done then.
// The record stays after an error that does not tell whether the change was made.
func (c *Cluster) Apply(ctx context.Context, change Change, namespace, by string) error {
	keep, err := c.keep(ctx, change, namespace, by)
	if err != nil {
		return err
	}
	at := c.dynamic.Resource(change.Resource).Namespace(change.Before.GetNamespace())
	if change.After == nil {
		uid, version := change.Before.GetUID(), change.Before.GetResourceVersion()
		err = at.Delete(ctx, change.Before.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	} else {
		after := change.After.DeepCopy()
		after.SetResourceVersion(change.Before.GetResourceVersion())
		_, err = at.Update(ctx, after, metav1.UpdateOptions{FieldManager: recordManager})
	}
	if err == nil {
		return nil
	}
	if !refused(err) {
		return fmt.Errorf("the change may have been made; doctor --undo %s takes it back: %w", change.Finding, err)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return errors.Join(err, keep.forget(ctx))
}

// refused reports whether the API server has said that it did not write. After a timeout, a
// lost connection or an internal error it may have.
func refused(err error) bool {
	for _, is := range []func(error) bool{
		apierrors.IsConflict, apierrors.IsNotFound, apierrors.IsForbidden, apierrors.IsInvalid, apierrors.IsBadRequest, apierrors.IsMethodNotSupported,
	} {
		if is(err) {
			return true
		}
	}
	return false
}

// Recorded returns the latest change of a finding that is recorded in a namespace, which
// Undo takes back. The error is ErrNoRecord when there is none.
func (c *Cluster) Recorded(ctx context.Context, id, namespace string) (Change, error) {
	change, _, err := c.recorded(ctx, id, namespace)
	return change, err
}

// Undo takes the latest change of a finding back, and forgets it. The error is
// ErrNoRecord when there is none, and ErrChanged when the object is not as the change
// left it.
func (c *Cluster) Undo(ctx context.Context, id, namespace string) (Change, error) {
	change, kept, err := c.recorded(ctx, id, namespace)
	if err != nil {
		return change, err
	}
	at := c.dynamic.Resource(change.Resource).Namespace(change.Before.GetNamespace())
	now, err := at.Get(ctx, change.Before.GetName(), metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return change, err
	case err == nil && now.GetUID() == change.Before.GetUID() && equality.Semantic.DeepEqual(content(now), content(change.Before)): // it was not made
		return change, kept.forget(ctx)
	case change.After == nil && err == nil, change.After != nil && err != nil,
		change.After != nil && !equality.Semantic.DeepEqual(content(now), content(change.After)):
		return change, ErrChanged
	}
	before := &unstructured.Unstructured{Object: content(change.Before)}
	if change.After == nil {
		_, err = at.Create(ctx, before, metav1.CreateOptions{FieldManager: recordManager})
	} else {
		before.SetResourceVersion(now.GetResourceVersion())
		_, err = at.Update(ctx, before, metav1.UpdateOptions{FieldManager: recordManager})
	}
	if err != nil {
		return change, err
	}
	return change, kept.forget(ctx)
}

// content is what people wrote of an object: without its status, and what the API
// server gives it.
func content(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.DeepCopy().Object)
	delete(out, "status")
	meta, _, _ := unstructured.NestedMap(out, "metadata")
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"} {
		delete(meta, field)
	}
	out["metadata"] = meta
	return out
}

// kept is the record of a change.
type kept struct {
	client          kubernetes.Interface
	namespace, name string
}

// forget deletes it.
func (k kept) forget(ctx context.Context) error {
	err := k.client.CoreV1().ConfigMaps(k.namespace).Delete(ctx, k.name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// keep records a change before it is made.
func (c *Cluster) keep(ctx context.Context, change Change, namespace, by string) (kept, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return kept{}, err
	}
	r := record{
		Finding: change.Finding, Resource: change.Resource, Namespace: change.Before.GetNamespace(), Name: change.Before.GetName(), At: c.Now.UTC(), By: by,
	}
	if r.Before, err = change.Before.MarshalJSON(); err == nil && change.After != nil {
		r.After, err = change.After.MarshalJSON()
	}
	if err != nil {
		return kept{}, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return kept{}, err
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{FieldManager: recordManager})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		return kept{}, fmt.Errorf("making the namespace of the record: %w", err)
	}
	made, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "kplan-doctor-", Labels: map[string]string{changeLabel: "change", "app.kubernetes.io/managed-by": "kplan"}},
		Data:       map[string]string{"change": string(text)},
	}, metav1.CreateOptions{FieldManager: recordManager})
	if err != nil {
		return kept{}, fmt.Errorf("recording the change: %w", err)
	}
	return kept{client, namespace, made.Name}, nil
}

// recorded returns the latest change of a finding. Whoever may write ConfigMaps in the
// namespace may write records: one counts only if a remedy can have made it.
func (c *Cluster) recorded(ctx context.Context, id, namespace string) (Change, kept, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return Change{}, kept{}, err
	}
	list, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: changeLabel})
	if err != nil {
		return Change{}, kept{}, fmt.Errorf("reading the records of changes: %w", err)
	}
	var (
		change Change
		at     time.Time
		name   string
	)
	for _, cm := range list.Items {
		var r record
		if json.Unmarshal([]byte(cm.Data["change"]), &r) != nil || r.Finding != id || !r.At.After(at) {
			continue
		}
		if made, ok := r.change(); ok {
			change, at, name = made, r.At, cm.Name
		}
	}
	if name == "" {
		return Change{}, kept{}, ErrNoRecord
	}
	return change, kept{client, namespace, name}, nil
}

// changeable are the kinds of the objects that remedies change.
var changeable = map[schema.GroupVersionResource]schema.GroupVersionKind{
	admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"):   admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
	admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"): admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
}

// change is the recorded change; false when it is none of the object that the finding
// is about.
func (r record) change() (Change, bool) {
	change := Change{Finding: r.Finding, Resource: r.Resource}
	_, about, _ := strings.Cut(r.Finding, ":")
	fits := func(text json.RawMessage) (*unstructured.Unstructured, bool) {
		o := &unstructured.Unstructured{}
		if o.UnmarshalJSON(text) != nil {
			return nil, false
		}
		kind, ok := changeable[r.Resource]
		return o, ok && o.GroupVersionKind() == kind && o.GetNamespace() == "" && object(kind.Kind, "", o.GetName()) == about
	}
	var ok bool
	if change.Before, ok = fits(r.Before); !ok {
		return Change{}, false
	}
	if r.After != nil {
		change.After, ok = fits(r.After)
	}
	return change, ok
}
