package kubeerr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/runner"
)

// answer is an error as the API server sends it.
func answer(code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: details,
	}}
}

func TestExplain(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	forbidden := apierrors.NewForbidden(deployments, "x",
		errors.New(`User "jane" cannot create resource "deployments" in API group "apps" in the namespace "app"`))
	for name, tt := range map[string]struct {
		err       error
		op        Op
		permanent bool
		hint      string
	}{
		"a verb that is not allowed": {
			err:       forbidden,
			op:        Op{Verb: "patch", Resource: deployments, Namespace: "app"},
			permanent: true,
			hint:      "check with: kubectl auth can-i create deployments.apps -n app",
		},
		"a verb that is not allowed, and a caller who knows nothing": {
			err:       forbidden,
			permanent: true,
			hint:      "check with: kubectl auth can-i create deployments.apps -n app",
		},
		"a verb that is not allowed in the whole cluster": {
			err: apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "x",
				errors.New(`User "jane" cannot patch resource "namespaces" in API group "" at the cluster scope`)),
			permanent: true,
			hint:      "check with: kubectl auth can-i patch namespaces",
		},
		"a quota": {
			err:       apierrors.NewForbidden(deployments, "x", errors.New("exceeded quota: small")),
			permanent: true,
			hint:      "the namespace's quota has no room for it: raise the quota, or request less",
		},
		"a denial by a webhook, which answers Forbidden too": {
			err:       answer(403, metav1.StatusReasonForbidden, `admission webhook "vx.example.io" denied the request: no`, nil),
			permanent: true,
			hint:      "the webhook works and refuses this object: change the object or the policy",
		},
		"a denial by a webhook with a code of its own": {
			err:       answer(503, "", `admission webhook "vx.example.io" denied the request: no`, nil),
			permanent: true,
			hint:      "the webhook works and refuses this object: change the object or the policy",
		},
		"a webhook that cannot be called": {
			err: answer(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "vx.example.io": EOF`, nil),
		},
		"a namespace that is being deleted": {
			err: answer(403, metav1.StatusReasonForbidden, "unable to create new content in namespace x because it is being terminated",
				&metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}),
			hint: "the namespace is being deleted: wait until it is gone",
		},
		"a namespace that is missing": {
			err:  apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "app"),
			hint: `create the namespace "app" in a step before, or with create_namespace: true`,
		},
		"an object that is missing": {err: apierrors.NewNotFound(deployments, "x")},
		"a field of another manager": {
			err: answer(409, metav1.StatusReasonConflict, "Apply failed with 2 conflicts", &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "helm" using apps/v1`, Field: ".spec.replicas"},
				{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kube-controller-manager" with subresource "scale"`},
				{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "helm" using apps/v1`, Field: ".spec.paused"},
			}}),
			permanent: true,
			hint:      `owned by "helm" and "kube-controller-manager"; take the fields over with force_conflicts: true, or leave them out`,
		},
		"an object that changed meanwhile": {
			err:  apierrors.NewConflict(deployments, "x", errors.New("please apply your changes to the latest version")),
			hint: changed,
		},
		"an invalid object": {err: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil), permanent: true},
		"a field that cannot change": {
			err:       answer(422, metav1.StatusReasonInvalid, `Deployment.apps "x" is invalid: spec.selector: Invalid value: {}: field is immutable`, nil),
			permanent: true,
			hint:      "that field cannot be changed once the object exists: delete the object, or give it another name",
		},
		"a pod that the namespace forbids": {
			err:       apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(`violates PodSecurity "restricted:latest": runAsNonRoot != true`)),
			permanent: true,
			hint:      "the namespace forbids such pods (its label pod-security.kubernetes.io/enforce): change the pod, or the label",
		},
		"a database without a leader": {err: answer(500, "", "etcdserver: leader changed", nil), hint: etcd},
		"a server that is busy": {
			err:  apierrors.NewTooManyRequests("the server has received too many requests", 1),
			hint: "the API server has more to do than it can, and asks to come back later",
		},
		"a server that starts": {
			err:  apierrors.NewServiceUnavailable("the server is currently unable to handle the request"),
			hint: "the API server, or what it asks itself, did not answer in time: it has too much to do, starts or stops",
		},
		"a connection that broke": {
			err:  &url.Error{Op: "Get", URL: "https://x", Err: io.ErrUnexpectedEOF},
			hint: "the connection broke before an answer came: the API server, or a proxy in front of it, restarts; another attempt may pass",
		},
		"a field that the schema lacks": {
			err:       answer(500, "", "failed to create typed patch object (app/x; apps/v1, Kind=Deployment): .spec.replica: field not declared in schema", nil),
			permanent: true,
			hint:      "a field's name or type is wrong: see kubectl explain",
		},
		"a number where the schema has a text": {
			err:       answer(500, "", "failed to create typed patch object (shop/note; /v1, Kind=ConfigMap): .data.width: expected string, got &value.valueUnstructured{Value:2}", nil),
			permanent: true,
			hint:      "the field takes a text: quote a number or a boolean, and make a text of what an expression gives, as in ${{ string(vars.replicas) }}",
		},
		"credentials that expired": {
			err:       apierrors.NewUnauthorized("Unauthorized"),
			permanent: true,
			hint:      "the credentials in the kubeconfig may have expired: log in again, then check with kubectl auth whoami",
		},
		"a kind that nobody serves": {
			err:  &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "example.io", Kind: "Widget"}},
			hint: "is its CustomResourceDefinition installed? a step that installs it belongs in needs",
		},
		"a refused connection": {
			err:  &url.Error{Op: "Get", URL: "https://x", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
			hint: "nobody listens at this address: is the cluster running, and is the kubeconfig of today?",
		},
		"a name that does not resolve": {
			err:  &url.Error{Op: "Get", URL: "https://x", Err: &net.DNSError{Name: "x", Err: "no such host"}},
			hint: `the name "x" does not resolve: check the cluster's server in the kubeconfig, and VPN or DNS`,
		},
		"a context that ended":             {err: context.Canceled},
		"an error that has a hint already": {err: runner.WithHint(forbidden, "ask jane"), hint: "ask jane"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Explain(fmt.Errorf("wrapped: %w", tt.err), tt.op)
			require.Equal(t, tt.hint, runner.HintOf(got))
			require.Equal(t, tt.permanent, runner.IsPermanent(got))
			require.ErrorIs(t, got, tt.err)
		})
	}
	require.NoError(t, Explain(nil, Op{}))
}
