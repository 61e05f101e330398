package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// startup is how long a webhook may take from its configuration on until it answers:
// its pods start, and cert-manager or a Job fills in its CA bundle. What is wrong with it
// before is a warning.
const startup = 2 * time.Minute

// hook is a webhook and its place in what configures it.
type hook struct {
	survey.Status
	// path is the place: webhooks[0], or spec.conversion.webhook.
	path string
}

// hooks returns all webhooks that are configured, in the order of their configurations.
func (c *Cluster) hooks(ctx context.Context) []hook {
	return once(c, "hooks", func() []hook {
		var all []hook
		places := map[webhook.Object]int{}
		for _, s := range c.webhooks(ctx) {
			if s.Kind == webhook.Conversion {
				all = append(all, hook{s, "spec.conversion.webhook"})
				continue
			}
			all = append(all, hook{s, fmt.Sprintf("webhooks[%d]", places[s.Source()])})
			places[s.Source()]++
		}
		return all
	})
}

// alike groups the webhooks of one configuration of which the same is said. One of which
// nothing is said is left out.
func alike(all []hook, say func(hook) string) [][]hook {
	type key struct {
		source webhook.Object
		text   string
	}
	var order []key
	groups := map[key][]hook{}
	for _, h := range all {
		k := key{h.Source(), say(h)}
		if k.text == "" {
			continue
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], h)
	}
	var out [][]hook
	for _, k := range order {
		out = append(out, groups[k])
	}
	return out
}

// named names webhooks of one configuration: webhooks "a", "b" and 2 more.
func named(group []hook) string {
	if group[0].Kind == webhook.Conversion {
		return "the conversion webhook"
	}
	var names []string
	for i, h := range group {
		if i == 3 && len(group) > 4 {
			names = append(names, fmt.Sprintf("%d more", len(group)-i))
			break
		}
		names = append(names, fmt.Sprintf("%q", h.Name))
	}
	return plural(len(names), "webhook") + " " + sentence(names)
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// sentence joins texts: a, b and c.
func sentence(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// failsOpen reports whether requests go past the webhook when it cannot be called.
func (h hook) failsOpen() bool { return h.FailurePolicy == admissionv1.Ignore }

// grade softens a finding about a webhook: past one that fails open, requests go, and
// one that was configured or changed a moment ago may be starting.
func (c *Cluster) grade(f finding.Finding, h hook, changes ...time.Time) finding.Finding {
	if h.failsOpen() {
		f.Severity = finding.Warning
	}
	if slices.ContainsFunc(append(changes, h.Created), c.recent) {
		f.Severity = finding.Warning
		f.Message += "; that is less than 2 minutes old and may pass"
		f.Hint = "look again in 2 minutes; then " + f.Hint
	}
	return f
}

// recent reports whether something was a moment ago.
func (c *Cluster) recent(at time.Time) bool { return !at.IsZero() && c.Now.Sub(at) < startup }

// evidence is a field of what configures the webhook.
func (h hook) evidence(field, value string) finding.Evidence {
	return finding.Evidence{Object: h.Source().String(), Field: h.path + "." + field, Value: value}
}

// kubectl is the configuration as kubectl takes it.
func (h hook) kubectl() string {
	return strings.ToLower(h.Source().Kind) + " " + h.Configuration
}

// resource is that of the configuration.
func (h hook) resource() schema.GroupVersionResource {
	switch h.Kind {
	case webhook.Conversion:
		return definitionResource
	case webhook.Mutating:
		return admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	default:
		return admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
	}
}
