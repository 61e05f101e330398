package webhook

import (
	"bufio"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorded reads testdata/errors.txt: what a real API server said, by the fault
// that was arranged.
func recorded(t testing.TB) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/errors.txt")
	require.NoError(t, err)
	defer f.Close()
	texts := map[string]string{}
	title := ""
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if rest, ok := strings.CutPrefix(line, "## "); ok {
			title = rest
		} else if title != "" && line != "" {
			texts[title] = line
		}
	}
	return texts
}

func internalError(text string) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: text,
	}
}

func TestClassifyRecorded(t *testing.T) {
	want := map[string]Class{
		"no Service":                 Race,
		"wrong service port":         Misconfigured,
		"no endpoints (agg routing)": Race,
		"headless service":           Misconfigured,
		"ExternalName + agg routing": Misconfigured,
		"connection refused":         Race,
		"blackhole (SYN dropped)":    Race,
		"accepts, never TLS":         Race,
		"accept then close":          Race,
		"accept then RST":            Race,
		"plain HTTP server":          Misconfigured,
		"empty caBundle":             Race,
		"stale caBundle same CN":     Race,
		"garbage caBundle":           Misconfigured,
		"expired cert":               Misconfigured,
		"not yet valid":              Race,
		"wrong SAN":                  Misconfigured,
		"CN only, no SAN":            Misconfigured,
		"server has no cert yet":     Race,
		"HTTP 400":                   Misconfigured,
		"HTTP 401":                   Misconfigured,
		"HTTP 403":                   Misconfigured,
		"HTTP 404":                   Misconfigured,
		"HTTP 405":                   Misconfigured,
		"HTTP 422":                   Misconfigured,
		"HTTP 429":                   Overloaded,
		"HTTP 500":                   Overloaded,
		"HTTP 502":                   Overloaded,
		"HTTP 503":                   Overloaded,
		"HTTP 504":                   Overloaded,
		"404 default mux":            Misconfigured,
		"200 not JSON":               Misconfigured,
		"handler hangs":              Race,
		"handler aborts":             Race,
	}
	texts := recorded(t)
	require.Len(t, texts, len(want), "every recorded text has its class here")
	for title, text := range texts {
		t.Run(title, func(t *testing.T) {
			f := Classify(internalError(text))
			require.Equal(t, want[title], f.Class, text)
			require.Equal(t, Admission, f.Kind)
			if title == "garbage caBundle" { // a text without its wrapper
				return
			}
			require.Equal(t, "vx.example.io", f.Webhook)
			if strings.Contains(text, "Post ") {
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
		"conversion on a read has no reason": {
			&metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: conversion},
			Fault{
				Kind: Conversion, Class: Race, Webhook: "example.io/v1, Kind=Widget", Service: "w", Namespace: "ns", Port: "443",
				URL: "https://w.ns.svc:443/convert", Cause: "dial tcp 10.96.0.9:443: connect: connection refused", Message: conversion,
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
		"a timeout of the whole request proves nothing": {
			&metav1.Status{
				Status: metav1.StatusFailure, Code: 504, Reason: metav1.StatusReasonTimeout,
				Message: "Timeout: request did not complete within requested timeout - context deadline exceeded",
			},
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

// A denial must never be taken for something that another try can mend,
// whatever the webhook puts into its message.
func FuzzClassify(f *testing.F) {
	for _, text := range recorded(f) {
		f.Add(text, int32(500))
		f.Add(`admission webhook "v" denied the request: `+text, int32(500))
	}
	f.Fuzz(func(t *testing.T, text string, code int32) {
		s := &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonInternalError, Message: text}
		got := Classify(s)
		if code < 500 && got.Waitable() {
			t.Fatalf("status %d is held: %q", code, text)
		}
		s.Message = `admission webhook "v" denied the request: ` + text
		if got := Classify(s); got.Class != Denied {
			t.Fatalf("a denial is %s: %q", got.Class, s.Message)
		}
	})
}
