package load

import (
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
)

// webhookSelectors are the fields of a webhook step that say which webhooks are
// meant.
var webhookSelectors = []string{"release", "configuration", "service", "selector", "files"}

func (v stepValidator) checkWebhook(s plan.Step, at path) {
	w := *s.Webhook
	v.checkLabel(w.Namespace, at.Key("namespace"))
	inRange(v.validator, at.Key("stable"), &w.Stable, 1, maxStable, "it is how many answers in a row are wanted")
	var given []string
	for _, field := range webhookSelectors {
		if v.has(at.Key(field)) {
			given = append(given, field)
		}
	}
	switch {
	case len(given) > 1:
		v.ReportField(fault{At: at.Key(given[1]), Hint: "remove all but one of them"}, "a webhook step takes one of %s, not %s", document.OrList(webhookSelectors), strings.Join(given, " and "))
	case len(given) == 0:
		v.ReportField(fault{At: at, Hint: "give the release of a helm step, the name of a webhook configuration, a service, a selector or files"}, "it is not said which webhooks are meant")
	case w.Namespace != "" && w.Canary == nil && given[0] != "release" && given[0] != "files":
		v.ReportField(fault{At: at.Key("namespace"), Hint: "remove it"}, "namespace is of use with release, files or canary only")
	}
	v.checkWebhookSelector(w, at)
	if w.Canary != nil {
		v.checkCanary(*w.Canary, at.Key("canary"))
	}
}

// checkWebhookSelector looks at the field that says which webhooks are meant.
func (v stepValidator) checkWebhookSelector(w plan.Webhook, at path) {
	for _, field := range []string{"configuration", "service", "selector"} {
		v.checkText(at.Key(field), field, "")
	}
	if w.Service != "" {
		namespace, name, ok := strings.Cut(w.Service, "/")
		if !ok || !names.IsLabel(namespace) || !names.IsLabel(name) {
			v.Report(fault{At: at.Key("service"), Hint: "write NAMESPACE/NAME"}, "%q is not a Service", document.Cut(w.Service, 80))
		}
	}
	v.checkPaths(w.Files, at.Key("files"))
	if list, ok := v.value(at.Key("files")).([]any); ok && len(list) == 0 {
		v.ReportField(fault{At: at.Key("files"), Hint: "name a file"}, "files is empty")
	}
}

func (v stepValidator) checkCanary(canary plan.Canary, at path) {
	v.checkPaths(canary.Accept, at.Key("accept"))
	v.checkPaths(canary.Deny, at.Key("deny"))
	for i := range canary.Mutate {
		at := at.Key("mutate").Index(i)
		v.checkText(at.Key("file"), "the path", "")
		v.checkText(at.Key("expect"), "expect", "write CEL over object and original, such as has(object.metadata.labels)")
	}
	if tree, ok := v.value(at).(map[string]any); ok && isBare(slices.Collect(maps.Values(tree))...) {
		v.ReportField(fault{At: at, Hint: "give accept, deny or mutate"}, "the canary has no objects")
	}
}
