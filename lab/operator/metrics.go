package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

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
