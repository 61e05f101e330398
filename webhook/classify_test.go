package webhook

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write testdata/faults.golden anew")

// sample is a text with a title.
type sample struct{ title, text string }

// samples reads a file of titles, each with the text below it.
func samples(t testing.TB, name string) []sample {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var list []sample
	for _, block := range strings.Split("\n"+string(b), "\n## ")[1:] {
		title, text, ok := strings.Cut(block, "\n")
		require.True(t, ok, "a text below %q", title)
		list = append(list, sample{title, strings.TrimRight(text, "\n")})
	}
	return list
}

// recorded is what a real API server said, by the fault that was arranged.
func recorded(t testing.TB) []sample {
	t.Helper()
	return samples(t, "errors.txt")
}

// wordings are texts of other clusters and versions, and as clients print them.
func wordings(t testing.TB) []sample {
	t.Helper()
	return samples(t, "wordings.txt")
}

func internalError(text string) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: text,
	}
}

// describe is a fault in the few lines of the golden.
func describe(f Fault) string {
	var b strings.Builder
	fmt.Fprint(&b, f.Class)
	if f.Ambiguous() {
		b.WriteString(", ambiguous")
	}
	if f.MaybeApplied {
		b.WriteString(", unproven")
	}
	b.WriteString("\n")
	if f.Kind != "" {
		fmt.Fprintf(&b, "\t%s %s", f.Kind, f.Webhook)
		if f.Service != "" {
			fmt.Fprintf(&b, " at %s:%s", f.ServiceKey(), f.Port)
		}
		b.WriteString("\n")
	}
	for _, s := range []string{f.URL, f.Cause} {
		if s != "" {
			fmt.Fprintf(&b, "\t%s\n", strings.ReplaceAll(s, "\n", "\n\t"))
		}
	}
	return b.String()
}

// testdata/faults.golden is the table of all texts and what is made of them.
func TestClassifyGolden(t *testing.T) {
	var b strings.Builder
	for _, s := range recorded(t) {
		fmt.Fprintf(&b, "## %s\n%s", s.title, describe(Classify(internalError(s.text))))
	}
	for _, s := range wordings(t) {
		fmt.Fprintf(&b, "## %s\n%s", s.title, describe(ClassifyError(errors.New(s.text))))
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/faults.golden", []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/faults.golden")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

func TestClassifyRecorded(t *testing.T) {
	for _, s := range recorded(t) {
		t.Run(s.title, func(t *testing.T) {
			f := Classify(internalError(s.text))
			require.True(t, f.Retryable())
			require.Equal(t, Admission, f.Kind)
			require.Equal(t, s.text, f.Message)
			text := ClassifyError(errors.New(s.text))
			require.Equal(t, f, text, "nothing is lost with the status")
			if s.title == "garbage caBundle" { // a text without its wrapper
				return
			}
			require.Equal(t, "vx.example.io", f.Webhook)
			if strings.Contains(s.text, "Post ") {
				require.Equal(t, "ns/x-webhook", f.ServiceKey())
				require.Equal(t, "443", f.Port)
				require.Equal(t, "https://x-webhook.ns.svc:443/validate-x", f.URL)
			} else {
				require.Empty(t, f.ServiceKey(), "an HTTP status of the webhook has no address")
			}
			require.NotContains(t, f.Cause, "failed to call webhook")
		})
	}
}

func TestClassifyStatus(t *testing.T) {
	conversion := `conversion webhook for example.io/v1, Kind=Widget failed: Post "https://w.ns.svc:443/convert?timeout=30s": dial tcp 10.96.0.9:443: connect: connection refused`
	denied := `admission webhook "v.example.io" denied the request: `
	for name, tc := range map[string]struct {
		status *metav1.Status
		want   Fault
	}{
		"no status": {nil, Fault{Class: None}},
		"success":   {&metav1.Status{Status: metav1.StatusSuccess}, Fault{Class: None}},
		"conversion inside admission": {
			internalError("Internal error occurred: " + conversion),
			Fault{
				Kind: Conversion, Class: Race, Webhook: "example.io/v1, Kind=Widget", Service: "w", Namespace: "ns", Port: "443",
				URL: "https://w.ns.svc:443/convert", Cause: "dial tcp 10.96.0.9:443: connect: connection refused",
				Message: "Internal error occurred: " + conversion,
			},
		},
		"conversion outside of admission has no reason": {
			&metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: conversion},
			Fault{
				Kind: Conversion, Class: Race, Webhook: "example.io/v1, Kind=Widget", Service: "w", Namespace: "ns", Port: "443",
				URL: "https://w.ns.svc:443/convert", Cause: "dial tcp 10.96.0.9:443: connect: connection refused", Message: conversion,
				MaybeApplied: true,
			},
		},
		"a denial": {
			&metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: denied + "no"},
			Fault{Kind: Admission, Class: Denied, Webhook: "v.example.io", Cause: "no", Message: denied + "no"},
		},
		"a denial with code 500 that quotes another failure": {
			internalError(denied + `failed calling webhook "x": EOF`),
			Fault{
				Kind: Admission, Class: Denied, Webhook: "v.example.io", Cause: `failed calling webhook "x": EOF`,
				Message: denied + `failed calling webhook "x": EOF`,
			},
		},
		"a denial without explanation": {
			&metav1.Status{Status: metav1.StatusFailure, Code: 400, Message: `admission webhook "v.example.io" denied the request without explanation`},
			Fault{Kind: Admission, Class: Denied, Webhook: "v.example.io", Message: `admission webhook "v.example.io" denied the request without explanation`},
		},
		"an API server that starts": {
			&metav1.Status{
				Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
				Message: `widgets.example.io "w" is forbidden: not yet ready to handle request`,
			},
			Fault{
				Kind: Server, Class: Race, Cause: "not yet ready to handle request",
				Message: `widgets.example.io "w" is forbidden: not yet ready to handle request`,
			},
		},
		"a server error of another kind": {internalError("Internal error occurred: etcdserver: leader changed"), Fault{
			Class: None, Message: "",
		}},
		"a request over its time proves nothing": {
			&metav1.Status{
				Status: metav1.StatusFailure, Code: 504, Reason: metav1.StatusReasonTimeout,
				Message: "Timeout: request did not complete within requested timeout - context deadline exceeded",
			},
			Fault{
				Kind: Server, Class: Overloaded, MaybeApplied: true,
				Cause:   "Timeout: request did not complete within requested timeout - context deadline exceeded",
				Message: "Timeout: request did not complete within requested timeout - context deadline exceeded",
			},
		},
		"a CRD that is not established": {
			&metav1.Status{
				Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
				Message: "the server could not find the requested resource (post widgets.example.io)",
				Details: &metav1.StatusDetails{Group: "example.io", Kind: "widgets"},
			},
			Fault{
				Kind: Definition, Class: Race, Webhook: "widgets.example.io",
				Cause:   "the server could not find the requested resource",
				Message: "the server could not find the requested resource (post widgets.example.io)",
			},
		},
		"an object that is not there": {
			&metav1.Status{
				Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
				Message: `widgets.example.io "w" not found`,
			},
			Fault{Class: None},
		},
		"an API server that ends": {
			&metav1.Status{
				Status: metav1.StatusFailure, Code: 503, Reason: metav1.StatusReasonServiceUnavailable,
				Message: "apiserver is shutting down",
			},
			Fault{Kind: Server, Class: Race, Cause: "the API server starts or stops", Message: "apiserver is shutting down"},
		},
		"a dry run for which the webhook is not called": {
			&metav1.Status{
				Status: metav1.StatusFailure, Code: 400, Reason: metav1.StatusReasonBadRequest,
				Message: `admission webhook "v.example.io" does not support dry run`,
			},
			Fault{Kind: Admission, Class: None, Webhook: "v.example.io", Message: `admission webhook "v.example.io" does not support dry run`},
		},
		"another server's internal error that quotes a failure": {
			internalError(`Internal error occurred: mirror: failed calling webhook "x": failed to call webhook: EOF`),
			Fault{Class: None},
		},
		"an invalid object whose message quotes a failure": {
			&metav1.Status{
				Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
				Message: `failed calling webhook "x": failed to call webhook: EOF`,
			},
			Fault{Class: None},
		},
		"a webhook that cannot reach something else": {
			internalError(`Internal error occurred: failed calling webhook "v": failed to call webhook: an error on the server ("dial tcp 10.1.1.1:443: connect: connection refused") has prevented the request from succeeding`),
			Fault{
				Kind: Admission, Class: Overloaded, Webhook: "v",
				Cause:   `an error on the server ("dial tcp 10.1.1.1:443: connect: connection refused") has prevented the request from succeeding`,
				Message: `Internal error occurred: failed calling webhook "v": failed to call webhook: an error on the server ("dial tcp 10.1.1.1:443: connect: connection refused") has prevented the request from succeeding`,
			},
		},
		"a conversion that returns too little": {
			internalError(`Internal error occurred: conversion webhook for example.io/v1, Kind=Widget returned 0 objects, expected 1`),
			Fault{
				Kind: Conversion, Class: Misconfigured, Webhook: "example.io/v1, Kind=Widget", Cause: "returned 0 objects, expected 1",
				Message: `Internal error occurred: conversion webhook for example.io/v1, Kind=Widget returned 0 objects, expected 1`,
			},
		},
		"a denial that another server's error quotes": {
			internalError(`Internal error occurred: mirror: admission webhook "v.example.io" denied the request: no`),
			Fault{
				Kind: Admission, Class: Denied, Webhook: "v.example.io", Cause: "no",
				Message: `Internal error occurred: mirror: admission webhook "v.example.io" denied the request: no`,
			},
		},
		"Cilium refuses in its own words": {
			internalError(`Internal error occurred: failed calling webhook "v": failed to call webhook: Post "https://s.n.svc:443/p?timeout=10s": dial tcp 10.1.1.1:443: connect: operation not permitted`),
			Fault{
				Kind: Admission, Class: Race, Webhook: "v", Service: "s", Namespace: "n", Port: "443", URL: "https://s.n.svc:443/p",
				Cause:   "dial tcp 10.1.1.1:443: connect: operation not permitted",
				Message: `Internal error occurred: failed calling webhook "v": failed to call webhook: Post "https://s.n.svc:443/p?timeout=10s": dial tcp 10.1.1.1:443: connect: operation not permitted`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Classify(tc.status))
		})
	}
}

// A timeout, or a conversion outside of admission, may come after storage.
func TestForRequest(t *testing.T) {
	conversion := Fault{Kind: Conversion, Class: Race, Webhook: "example.io/v1beta1, Kind=Widget", MaybeApplied: true}
	timeout := Fault{Kind: Server, Class: Overloaded, MaybeApplied: true}
	for name, tc := range map[string]struct {
		fault      Fault
		version    string
		idempotent bool
		want       bool
	}{
		"a create of what is not converted yet":        {conversion, "example.io/v1beta1", false, true},
		"a create of what is converted for its answer": {conversion, "example.io/v1", false, false},
		"a version whose name begins alike":            {conversion, "example.io/v1beta", false, false},
		"a read":                                       {conversion, "example.io/v1", true, true},
		"a create that timed out":                      {timeout, "example.io/v1", false, false},
		"a read that timed out":                        {timeout, "example.io/v1", true, true},
		"a denied read":                                {Fault{Class: Denied}, "example.io/v1", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.False(t, tc.fault.Retryable())
			require.Equal(t, tc.want, tc.fault.ForRequest(tc.version, tc.idempotent).Retryable())
		})
	}
}

// An object that is converted for an admission webhook meets the API server's
// prefix twice, if the conversion fails.
func TestClassifyConversionInAdmission(t *testing.T) {
	f := Classify(internalError(`Internal error occurred: Internal error occurred: conversion webhook for lab.kplan.dev/v1alpha1, Kind=Gizmo failed: ` +
		`Post "https://op-webhook.op.svc:443/convert?timeout=30s": dial tcp 10.96.76.153:443: connect: connection refused`))
	require.Equal(t, Conversion, f.Kind)
	require.True(t, f.Retryable(), "admission is before storage")
}
