package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// progress is what the parts have reached, for /readyz and /metrics.
type progress struct {
	listeningSince atomic.Int64 // Unix nanoseconds, 0: not yet
	injected       atomic.Bool  // every caBundle is in place
}

func (o *operator) healthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := o.ready(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		o.writeMetrics(w)
	})
	return mux
}

// ready is nil when every part of this process works. With --lying-health it
// is nil always, like controller-runtime's healthz.Ping, which many operators
// register as their readiness check.
func (o *operator) ready(r *http.Request) error {
	if o.cfg.LyingHealth {
		return nil
	}
	if o.cfg.Run.has(partWebhook) {
		if err := o.dialSelf(r); err != nil {
			return fmt.Errorf("webhook: %w", err)
		}
	}
	if o.cfg.Run.has(partCerts) {
		if !o.state.injected.Load() {
			return fmt.Errorf("certs: the CA is not injected yet")
		}
		// External Secrets' cert-controller is ready only when the webhook's
		// Service has endpoints. In one pod with the webhook it would wait for
		// itself.
		if !o.cfg.Run.has(partWebhook) {
			if err := o.endpointsReady(r.Context()); err != nil {
				return fmt.Errorf("certs: %w", err)
			}
		}
	}
	return nil
}

// dialSelf does a TLS handshake with the own listener, as controller-runtime's
// StartedChecker does.
func (o *operator) dialSelf(r *http.Request) error {
	_, port, err := net.SplitHostPort(o.cfg.Listen)
	if err != nil {
		return err
	}
	var d net.Dialer
	conn, err := d.DialContext(r.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if o.fault.current().kind == answerPlain {
		return nil
	}
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(r.Context())
}

// endpointsReady is nil when the webhook's Service has a ready address.
func (o *operator) endpointsReady(ctx context.Context) error {
	name, _, err := o.cfg.service()
	if err != nil {
		return err
	}
	found, err := o.client.Resource(endpointsResource).Namespace(o.cfg.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + name})
	if err != nil {
		return err
	}
	for _, s := range found.Items {
		endpoints, _, _ := unstructured.NestedSlice(s.Object, "endpoints")
		for _, e := range endpoints {
			m, _ := e.(map[string]any)
			if ready, _, _ := unstructured.NestedBool(m, "conditions", "ready"); ready {
				return nil
			}
		}
	}
	return fmt.Errorf("service %q has no ready endpoints", name)
}

// call is what is counted of one webhook call.
type call struct {
	path, resource, operation string
	dryRun                    bool
	answer                    string
}

// counter counts webhook calls since the process started.
type counter struct {
	mu    sync.Mutex
	count map[call]int
}

func (c *counter) add(k call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[k]++
}

// writeMetrics writes Prometheus text, so that a benchmark can tell how many
// calls reached the webhook and since when it listens.
func (o *operator) writeMetrics(w io.Writer) {
	fmt.Fprintln(w, "# HELP lab_webhook_listening_since_seconds Unix time at which the listener was opened, 0 before.")
	fmt.Fprintln(w, "# TYPE lab_webhook_listening_since_seconds gauge")
	fmt.Fprintf(w, "lab_webhook_listening_since_seconds %.6f\n", float64(o.state.listeningSince.Load())/1e9)
	fmt.Fprintln(w, "# HELP lab_webhook_calls_total Calls that reached the webhook server.")
	fmt.Fprintln(w, "# TYPE lab_webhook_calls_total counter")
	o.calls.mu.Lock()
	defer o.calls.mu.Unlock()
	lines := make([]string, 0, len(o.calls.count))
	for k, n := range o.calls.count {
		lines = append(lines, fmt.Sprintf("lab_webhook_calls_total{path=%q,resource=%q,operation=%q,dry_run=\"%t\",answer=%q} %d\n",
			k.path, k.resource, k.operation, k.dryRun, k.answer, n))
	}
	slices.Sort(lines)
	fmt.Fprint(w, strings.Join(lines, ""))
}
