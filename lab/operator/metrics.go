package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
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

func newCounter() *counter { return &counter{count: map[call]int{}} }

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
	keys := slices.SortedFunc(maps.Keys(o.calls.count), func(a, b call) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.resource, b.resource),
			cmp.Compare(a.operation, b.operation), cmp.Compare(a.answer, b.answer),
			cmp.Compare(fmt.Sprint(a.dryRun), fmt.Sprint(b.dryRun)))
	})
	for _, k := range keys {
		fmt.Fprintf(w, "lab_webhook_calls_total{path=%q,resource=%q,operation=%q,dry_run=\"%t\",answer=%q} %d\n",
			k.path, k.resource, k.operation, k.dryRun, k.answer, o.calls.count[k])
	}
}
