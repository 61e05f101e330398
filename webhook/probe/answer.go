package probe

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/webhook"
)

// answer is what came of a dry run. One of its fields is set.
type answer struct {
	// admitted: every webhook that was asked let it pass. object is what it became;
	// nil when one of its name exists, which is found out after admission
	// (k8s.io/apiserver pkg/registry/generic/registry/store.go, Create).
	admitted bool
	object   *unstructured.Unstructured
	// fault is a denial, or a call that failed.
	fault webhook.Fault
	// refusal is why the API server refused it by itself. Mutating webhooks are
	// asked before that, validating ones after (store.go, Create: BeforeCreate
	// validates, then createValidation).
	refusal string
	// absent is what has to be there first, and is not: its namespace.
	absent string
	// forbidden is why the user may not create it. rights says that it is the
	// authorizer who forbids it, and no quota or other admission plugin.
	forbidden string
	rights    bool
}

// unproven returns the outcome of a dry run that did not get to the webhook.
func (a answer) unproven(prefix string) Outcome {
	return Outcome{State: Unproven, Reason: prefix + a.absent + a.forbidden + a.refusal, Forbidden: a.rights}
}

// send creates an object by dry run. An error is the context's cause, or one
// that has no answer of the API server: a held request that was given up.
func send(ctx context.Context, client dynamic.Interface, d dryRun) (answer, error) {
	got, err := client.Resource(d.mapping.Resource).Namespace(d.object.GetNamespace()).Create(ctx, d.object.DeepCopy(), metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: "kplan",
	})
	if err == nil {
		return answer{admitted: true, object: got}, nil
	}
	return read(ctx, err, d.object)
}

// read returns what an error of a dry run says.
func read(ctx context.Context, err error, u *unstructured.Unstructured) (answer, error) {
	if ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return answer{}, err
	}
	s := status.Status()
	text := strings.TrimSpace(s.Message)
	secret := u.GroupVersionKind().GroupKind() == corev1.SchemeGroupVersion.WithKind("Secret").GroupKind()
	if secret { // what is said about a Secret may quote it
		text = string(s.Reason)
	}
	f := webhook.Classify(&s).ForRequest("", true) // a dry run may be repeated
	switch {
	case f.Class == webhook.Denied:
		if secret {
			f.Message, f.Cause = "", "its words are left out, for the object is a Secret"
		}
		return answer{fault: f}, nil
	case f.Retryable():
		return answer{fault: f}, nil
	case f.Webhook != "": // it does not support dry runs
		return answer{refusal: text}, nil
	case apierrors.IsAlreadyExists(err):
		return answer{admitted: true}, nil
	case apierrors.IsNotFound(err):
		return answer{absent: text}, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return answer{refusal: text}, nil
	case apierrors.IsForbidden(err):
		return answer{forbidden: text, rights: unauthorized(s.Message)}, nil
	}
	return answer{}, err
}

// unauthorized reports whether the authorizer gave the message: admission plugins
// answer Forbidden as well (k8s.io/apiserver
// pkg/endpoints/handlers/responsewriters/errors.go).
func unauthorized(message string) bool {
	return strings.Contains(message, `User "`) && strings.Contains(message, `" cannot `)
}
