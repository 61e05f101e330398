package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// webhookSelectors are the fields of a webhook step that say which webhooks are
// meant.
var webhookSelectors = []string{"release", "configuration", "service", "selector", "files"}

func (c *checker) checkWebhook(s plan.Step, at document.Path) {
	w := *s.Webhook
	c.checkLabel(w.Namespace, at.Key("namespace"))
	if c.isNumber(at.Key("stable")) && (w.Stable < 1 || w.Stable > maxStable) {
		c.Report(document.Fault{At: at.Key("stable"), Hint: "it is how many answers in a row are wanted"}, "stable is %d, but must be from 1 to %d", w.Stable, maxStable)
	}
	var given []string
	for _, field := range webhookSelectors {
		if c.has(at.Key(field)) {
			given = append(given, field)
		}
	}
	switch {
	case len(given) > 1:
		c.ReportField(document.Fault{At: at.Key(given[1]), Hint: "remove all but one of them"}, "a webhook step takes one of %s, not %s", document.OrList(webhookSelectors), strings.Join(given, " and "))
	case len(given) == 0:
		c.ReportField(document.Fault{At: at, Hint: "give the release of a helm step, the name of a webhook configuration, a service, a selector or files"}, "it is not said which webhooks are meant")
	case w.Namespace != "" && w.Canary == nil && given[0] != "release" && given[0] != "files":
		c.ReportField(document.Fault{At: at.Key("namespace"), Hint: "remove it"}, "namespace is of use with release, files or canary only")
	}
	c.checkWebhookSelector(w, at)
	if w.Canary != nil {
		c.checkCanary(*w.Canary, at.Key("canary"))
	}
}

// checkWebhookSelector looks at the field that says which webhooks are meant.
func (c *checker) checkWebhookSelector(w plan.Webhook, at document.Path) {
	for _, field := range []string{"configuration", "service", "selector"} {
		if c.isEmptyText(at.Key(field)) {
			c.Report(document.Fault{At: at.Key(field)}, "%s is empty", field)
		}
	}
	if w.Service != "" {
		namespace, name, ok := strings.Cut(w.Service, "/")
		if !ok || !dnsLabel.MatchString(namespace) || !dnsLabel.MatchString(name) {
			c.Report(document.Fault{At: at.Key("service"), Hint: "write NAMESPACE/NAME"}, "%q is not a Service", document.Cut(w.Service, 80))
		}
	}
	c.checkNotEmpty(w.Files, at.Key("files"))
	if list, ok := c.value(at.Key("files")).([]any); ok && len(list) == 0 {
		c.ReportField(document.Fault{At: at.Key("files"), Hint: "name a file"}, "files is empty")
	}
}

func (c *checker) checkCanary(canary plan.Canary, at document.Path) {
	c.checkNotEmpty(canary.Accept, at.Key("accept"))
	c.checkNotEmpty(canary.Deny, at.Key("deny"))
	for i, m := range canary.Mutate {
		at := at.Key("mutate").Index(i)
		if m.File == "" && c.isEmptyText(at.Key("file")) {
			c.Report(document.Fault{At: at.Key("file")}, "the path is empty")
		}
		if m.Expect == "" && c.isEmptyText(at.Key("expect")) {
			c.Report(document.Fault{At: at.Key("expect"), Hint: `write CEL over object and original, such as has(object.metadata.labels)`}, "expect is empty")
		}
	}
	if tree, ok := c.value(at).(map[string]any); ok && emptyCanary(tree) {
		c.ReportField(document.Fault{At: at, Hint: "give accept, deny or mutate"}, "the canary has no objects")
	}
}

// emptyCanary tells whether all that is given of a canary is empty lists.
func emptyCanary(tree map[string]any) bool {
	for _, v := range tree {
		if list, ok := v.([]any); v != nil && (!ok || len(list) > 0) {
			return false
		}
	}
	return true
}

// checkWebhookRelease finds the helm steps with the release. The webhook step
// need not come after them: next to them it waits until the release is there.
// Before them it would wait for ever.
func (c *checker) checkWebhookRelease(s plan.Step, at document.Path) {
	w := *s.Webhook
	all := c.releaseOwners()
	var owners []*plan.Step
	for _, o := range all[w.Release] {
		if o.Cluster == s.Cluster && (w.Namespace == "" || o.Helm.Namespace == "" || o.Helm.Namespace == w.Namespace) {
			owners = append(owners, o)
		}
		if len(owners) > 1 {
			break // which one is meant is not clear already
		}
	}
	switch {
	case w.Release == "" || all[""] != nil && len(owners) == 0: // a deferred release may be this one
	case len(owners) == 0 && len(all[w.Release]) > 0:
		c.Report(document.Fault{At: at.Key("namespace"), Hint: "remove namespace, or give that of the helm step"}, "no helm step installs the release %q into the namespace %q", w.Release, w.Namespace)
	case len(owners) == 0:
		hint := cmp.Or(c.near.Hint(w.Release, slices.Sorted(maps.Keys(all))), "for a webhook from outside of the plan, give its configuration")
		c.Report(document.Fault{Code: document.CodeUnknownName, At: at.Key("release"), Hint: hint}, "no helm step installs the release %q", document.Cut(w.Release, 80))
	case len(owners) > 1 && w.Namespace == "":
		c.Report(document.Fault{At: at.Key("release"), Hint: "give its namespace"}, "the release %q is installed by more than one step: %s and %s", w.Release, owners[0].Name, owners[1].Name)
	case len(owners) == 1 && c.graph().Follows(owners[0].Name, s.Name):
		c.Report(document.Fault{At: at.Key("release"), Hint: fmt.Sprintf("let it need %q, not the other way round", owners[0].Name)}, "the release %q is installed by the step %q, which comes after this one", w.Release, owners[0].Name)
	}
}

// releaseOwners gives the helm steps of each release, in plan order; under "" those
// whose release may be deferred.
func (c *checker) releaseOwners() map[string][]*plan.Step {
	c = c.root()
	if c.releases == nil {
		c.releases = map[string][]*plan.Step{}
		for i := range c.plan.Steps {
			s := &c.plan.Steps[i]
			name := s.ReleaseName()
			if s.Helm != nil && s.Helm.Release == "" && s.Pending != nil {
				name = "" // it may be deferred
			}
			if s.Helm != nil {
				c.releases[name] = append(c.releases[name], s)
			}
		}
	}
	return c.releases
}
