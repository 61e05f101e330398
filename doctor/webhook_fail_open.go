package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// webhookFailOpen finds webhooks that nobody misses, though they do nothing now.
var webhookFailOpen = Check{
	Rule: finding.Rule{
		ID: "webhook-fail-open", Severity: finding.Warning,
		Summary:     "A webhook with failurePolicy Ignore cannot be called now.",
		Explanation: "Requests go past it: what it should check, change or inject is silently not done. Objects that were made meanwhile stay as they are.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		groups := alike(c.hooks(ctx), func(h hook) string {
			// One that starts is no news: it is what Ignore is for.
			if o := h.outage(); o.is() && h.failsOpen() && !c.recent(h.Created) && !c.recent(o.Since) {
				return h.Service() + " " + o.Reason
			}
			return ""
		})
		var found []finding.Finding
		for _, g := range groups {
			f := c.outageOf(ctx, g)
			for _, h := range g {
				if n := c.failOpens(ctx)[failOpenKey(h)]; n != "" {
					f.Evidence = append(f.Evidence, finding.Evidence{
						Object: "metrics of the API server", Field: failOpenMetric, Value: fmt.Sprintf("%s went past webhook %q since it started", requests(n), h.Name),
					})
				}
			}
			found = append(found, f)
		}
		return found
	},
}

func requests(n string) string {
	if n == "1" {
		return "1 request"
	}
	return n + " requests"
}

// failOpenMetric counts requests that went past a webhook
// (k8s.io/apiserver pkg/admission/metrics/metrics.go).
const failOpenMetric = "apiserver_admission_webhook_fail_open_count"

// failOpenKey is the webhook as the metric has it.
func failOpenKey(h hook) string {
	typ := "validating"
	if h.Kind == webhook.Mutating {
		typ = "admit"
	}
	return fmt.Sprintf("{name=%q,type=%q}", h.Name, typ)
}

// failOpens reads the metric from the API server that answers, which may be one of
// several. Few may read it, and nothing depends on it: it is none when it cannot be read.
func (c *Cluster) failOpens(ctx context.Context) map[string]string {
	return once(c, "fail opens", func() map[string]string {
		text, err := c.discovery.RESTClient().Get().AbsPath("metrics").Do(ctx).Raw()
		if err != nil {
			return nil
		}
		counts := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, failOpenMetric); ok {
				labels, count, _ := strings.Cut(rest, " ")
				counts[labels] = strings.TrimSpace(count)
			}
		}
		return counts
	})
}
