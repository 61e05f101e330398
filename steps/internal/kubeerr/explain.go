// Package kubeerr says what errors of Kubernetes' clients mean: what the user can do
// about them, whether another attempt may pass, and what in them must not be shown.
//
// It looks at errors alone. What webhooks answer is told apart by package webhook.
package kubeerr

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/runner"
)

// Op is the request that failed, as far as the caller knows; all of it may be
// left out.
type Op struct {
	// Verb is the API verb, e.g. "patch".
	Verb string
	// Resource is the plural with its group, e.g. deployments.apps.
	Resource  schema.GroupResource
	Namespace string
}

// Explain adds to an error of a Kubernetes client what the user can do about
// it, and marks it permanent when another attempt cannot mend it. The error
// itself stays in the chain. Errors that have a hint, and those of a context
// that ended, are returned as they are.
func Explain(err error, op Op) error {
	if err == nil || runner.HintOf(err) != "" {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return explainStatus(err, status.Status(), op)
	}
	if meta.IsNoMatchError(err) {
		return runner.WithHint(err, "is its CustomResourceDefinition installed? a step that installs it belongs in needs")
	}
	return ExplainNetwork(err)
}

func explainStatus(err error, status metav1.Status, op Op) error {
	switch {
	case Denied(err):
		return runner.WithHint(runner.Permanent(err), "the webhook works and refuses this object: change the object or the policy")
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return runner.WithHint(err, "the namespace is being deleted: wait until it is gone")
	case apierrors.IsForbidden(err):
		if verb, resource, ns, ok := forbiddenRequest(status, op); ok {
			return runner.WithHint(runner.Permanent(err), "check with: kubectl auth can-i "+verb+" "+resource+ns)
		}
		return runner.WithHint(runner.Permanent(err), words(err)) // a quota or a policy
	case apierrors.IsUnauthorized(err):
		return runner.WithHint(runner.Permanent(err), "the credentials in the kubeconfig may have expired: log in again, then check with kubectl auth whoami")
	case apierrors.IsConflict(err):
		if owners := Owners(err); len(owners) > 0 {
			return runner.WithHint(runner.Permanent(err), "owned by "+strings.Join(owners, " and ")+"; take the fields over with force_conflicts: true, or leave them out")
		}
		return runner.WithHint(err, words(err))
	case apierrors.IsNotFound(err) && status.Details != nil && status.Details.Kind == "namespaces":
		return runner.WithHint(err, fmt.Sprintf("create the namespace %q in a step before, or with create_namespace: true", status.Details.Name))
	case strings.HasPrefix(status.Message, "failed to create typed patch object"):
		// An apply of fields that the schema lacks: code 500 without a reason
		// (k8s.io/apimachinery/pkg/util/managedfields/internal/structuredmerge.go).
		hint := "a field's name or type is wrong: see kubectl explain"
		if strings.Contains(status.Message, ": expected string, got ") {
			hint = "the field takes a text: quote a number or a boolean, and make a text of what an expression gives, as in ${{ string(vars.replicas) }}"
		}
		return runner.WithHint(runner.Permanent(err), hint)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err),
		apierrors.IsRequestEntityTooLargeError(err), apierrors.IsUnsupportedMediaType(err):
		return runner.WithHint(runner.Permanent(err), words(err))
	}
	return runner.WithHint(err, words(err))
}

// Denied reports whether an admission webhook refused the request. The API
// server gives such answers no type of their own, and the webhook picks code
// and reason freely: the words are those of k8s.io/apiserver
// pkg/admission/plugin/webhook/errors/statuserror.go.
func Denied(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	rest, ok := strings.CutPrefix(status.Status().Message, `admission webhook "`)
	return ok && strings.Contains(rest, `" denied the request`)
}

// forbiddenRequest is what was not allowed, when it was the authorizer who
// said so and not an admission plugin; both answer Forbidden. The words are
// those of k8s.io/apiserver pkg/endpoints/handlers/responsewriters/errors.go,
// and the verb is the server's: server-side apply needs create too.
func forbiddenRequest(status metav1.Status, op Op) (verb, resource, namespace string, ok bool) {
	_, said, ok := strings.Cut(status.Message, `" cannot `)
	if !ok || !strings.Contains(status.Message, `User "`) {
		return "", "", "", false
	}
	verb, said, _ = strings.Cut(said, " ")
	gr := op.Resource
	if gr.Resource == "" && status.Details != nil {
		gr = schema.GroupResource{Group: status.Details.Group, Resource: status.Details.Kind}
	}
	if gr.Resource == "" {
		return "", "", "", false
	}
	namespace = op.Namespace
	if _, after, found := strings.Cut(said, ` in the namespace "`); found {
		namespace, _, _ = strings.Cut(after, `"`)
	}
	if namespace != "" {
		namespace = " -n " + namespace
	}
	return verb, gr.String(), namespace, true
}

// Owners are the field managers that a server-side apply conflicts with, each
// in quotes; nil when err is no such conflict.
func Owners(err error) []string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var owners []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		// conflict with "MANAGER" [with subresource "X"] [using VERSION] …
		_, rest, _ := strings.Cut(cause.Message, `"`)
		name, _, ok := strings.Cut(rest, `"`)
		if ok && !slices.Contains(owners, `"`+name+`"`) {
			owners = append(owners, `"`+name+`"`)
		}
	}
	return owners
}

// ExplainNetwork adds to an error of the network what it most likely means.
func ExplainNetwork(err error) error {
	var (
		dns      *net.DNSError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &dns):
		return runner.WithHint(err, fmt.Sprintf("the name %q does not resolve: check the cluster's server in the kubeconfig, and VPN or DNS", dns.Name))
	case errors.Is(err, syscall.ECONNREFUSED):
		return runner.WithHint(err, "nobody listens at this address: is the cluster running, and is the kubeconfig of today?")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return runner.WithHint(err, "the connection broke before an answer came: the API server, or a proxy in front of it, restarts; another attempt may pass")
	case errors.As(err, &unknown):
		return runner.WithHint(err, "the certificate is not of the authority in the kubeconfig: was the cluster made anew? fetch its kubeconfig again")
	case errors.As(err, &hostname), errors.As(err, &invalid):
		return runner.WithHint(err, "the API server's certificate is not valid for this address or time: check the kubeconfig and the clock")
	}
	return err
}

const (
	changed = "somebody else changed the object in between; another attempt starts from what it is now"
	etcd    = "the cluster's database was busy or changed its leader, as it does when a machine is slow or restarts; another attempt may pass"
)

// inWords are what answers of the API server mean, by a part of their text: of
// k8s.io/apiserver, k8s.io/apimachinery pkg/api/validation, k8s.io/pod-security-admission
// and etcd. The first that fits counts.
var inWords = []struct{ text, words string }{
	{"exceeded quota", "the namespace's quota has no room for it: raise the quota, or request less"},
	{"violates PodSecurity", "the namespace forbids such pods (its label pod-security.kubernetes.io/enforce): change the pod, or the label"},
	{"field is immutable", "that field cannot be changed once the object exists: delete the object, or give it another name"},
	{"the object has been modified", changed},
	{"please apply your changes to the latest version", changed},
	{"unknown field", "a field's name is wrong: see kubectl explain"},
	{"etcdserver: mvcc: database space exceeded", "the cluster's database is full: nothing can be written until whoever runs it makes room"},
	{"etcdserver: ", etcd},
	{"already exists", "an object of that name is there already: delete it, or give one of the two another name"},
}

// words says what an answer of the API server means; "" when there is nothing to
// add.
func words(err error) string {
	text := err.Error()
	for _, w := range inWords {
		if strings.Contains(text, w.text) {
			return w.words
		}
	}
	switch {
	case apierrors.IsTooManyRequests(err):
		return "the API server has more to do than it can, and asks to come back later"
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return "the API server, or what it asks itself, did not answer in time: it has too much to do, starts or stops"
	}
	return ""
}
