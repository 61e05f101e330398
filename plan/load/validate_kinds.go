package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

func (v stepValidator) checkHelm(s plan.Step, at path) {
	h := *s.Helm
	v.checkLabel(h.Namespace, at.Key("namespace"))
	v.checkRelease(s, at)
	v.checkVerify(h, at.Key("verify"))
	v.checkFiles(h.ValuesFiles, at.Key("values_files"), h.Evaluate)
	v.checkReleaseOptions(h, at)
	chart, repo := at.Key("chart"), at.Key("repo")
	switch {
	case h.Chart == "":
		v.checkText(chart, "the chart", "")
	case h.IsLocal():
		if h.Repo != "" {
			v.ReportField(fault{At: repo, Hint: "remove it, or give the chart's name without the path"}, "repo is of no use for the chart %q, which is a path", document.Cut(h.Chart, 80))
		}
	case h.IsOCI():
		if h.Repo != "" {
			v.ReportField(fault{At: repo, Hint: "remove it: oci:// names the registry already"}, "repo is of no use for an oci:// chart")
		}
		if strings.Trim(strings.TrimPrefix(h.Chart, "oci://"), "/") == "" || !strings.Contains(strings.TrimPrefix(h.Chart, "oci://"), "/") {
			v.Report(fault{At: chart, Hint: "write oci://HOST/PATH/CHART"}, "the address %q names no chart", document.Cut(h.Chart, 80))
		}
		if _, tag := h.OCITag(); tag != "" && h.Version != "" && tag != strings.ReplaceAll(h.Version, "+", "_") {
			v.Report(fault{At: at.Key("version"), Hint: "write the version once"}, "the chart has the tag %q, but the version is %q", document.Cut(tag, 80), document.Cut(h.Version, 80))
		}
	case strings.Contains(h.Chart, "://"):
		v.Report(fault{At: chart, Hint: "give oci://HOST/PATH, a path such as ./chart, or the chart's name together with repo"}, "charts cannot be read from %q", document.Cut(h.Chart, 80))
	case !v.has(repo) && isAliased(h.Chart):
	case !v.has(repo):
		hint := "give repo: https://…, or write ./" + document.Cut(h.Chart, 60) + " for a folder"
		v.Report(fault{At: chart, Hint: hint}, "it is not said where the chart %q comes from", document.Cut(h.Chart, 80))
	case h.Repo != "":
		v.checkRepo(h, repo)
	}
}

// isAliased reports whether a chart is named as REPOSITORY/CHART, whose repository may
// be one of helm repo add.
func isAliased(chart string) bool {
	alias, name, ok := strings.Cut(chart, "/")
	return ok && alias != "" && name != "" && !strings.ContainsAny(name, "/") && !strings.HasSuffix(name, ".tgz")
}

// checkRelease knows that Helm allows fewer characters than a step's name has.
func (v stepValidator) checkRelease(s plan.Step, at path) {
	name := s.ReleaseName()
	if name == "" || names.IsSubdomain(name, maxReleaseName) {
		return
	}
	if s.Helm.Release != "" {
		v.Report(fault{At: at.Key("release"), Hint: fmt.Sprintf("use small letters, digits, - and ., at most %d", maxReleaseName)}, "%q cannot be the name of a release", document.Cut(name, 80))
	} else if !v.has(at.Key("release")) && names.IsLabel(name) {
		v.ReportField(fault{At: at, Hint: "give a shorter name in release"}, "the step's name is too long for a release: %d characters, Helm takes %d", len(name), maxReleaseName)
	}
}

func (v stepValidator) checkApply(a plan.Apply, at path) {
	v.checkLabel(a.Namespace, at.Key("namespace"))
	v.checkFiles(a.Files, at.Key("files"), a.Evaluate)
	v.checkOverlay(a.Kustomize, at.Key("kustomize"))
	if isBare(v.value(at.Key("files")), v.value(at.Key("objects")), v.value(at.Key("kustomize"))) {
		v.ReportField(fault{At: at, Hint: "give files, objects or kustomize"}, "there is nothing to apply")
	}
	if a.Wait == plan.WaitHooks {
		v.Report(fault{At: at.Key("wait"), Hint: "write none or ready"}, "hooks are for helm steps only")
	}
	for i := range a.Objects {
		o, _ := v.value(at.Key("objects").Index(i)).(map[string]any)
		v.checkObject(o, at.Key("objects").Index(i))
	}
}

// checkObject wants what every Kubernetes object has.
func (v stepValidator) checkObject(o map[string]any, at path) {
	if o == nil {
		return
	}
	for _, k := range []string{"apiVersion", "kind"} {
		switch o[k].(type) {
		case string, value.Invalid, value.Deferred:
		case nil:
			v.Report(fault{At: at}, "the object has no %s", k)
		default:
			v.Report(fault{At: at.Key(k)}, "expected text, got %s", document.Describe(o[k]))
		}
	}
	kind, _ := o["kind"].(string)
	if _, isList := o["items"].([]any); isList && strings.HasSuffix(kind, "List") {
		return
	}
	meta, _ := o["metadata"].(map[string]any)
	switch meta["name"].(type) {
	case string, value.Invalid, value.Deferred:
	case nil:
		hint := ""
		if meta["generateName"] != nil {
			hint = "server-side apply needs a name; generateName makes a new one each time"
		}
		if !value.IsUnsaid(o["metadata"]) {
			v.Report(fault{At: at, Hint: hint}, "the object has no metadata.name")
		}
	default:
		v.Report(fault{At: at.Key("metadata").Key("name"), Hint: "quote it"}, "expected text, got %s", document.Describe(meta["name"]))
	}
}

func (v stepValidator) checkWait(w plan.Wait, at path) {
	v.checkLabel(w.Namespace, at.Key("namespace"))
	v.checkResource(w.Resource, w.Selector, at)
	if w.For == "" {
		v.checkText(at.Key("for"), "for", conditionHint)
		return
	}
	if _, err := w.Condition(); err != nil {
		hint := conditionHint
		if len(w.For) > 0 && !strings.Contains(w.For, "=") && w.For[0] >= 'A' && w.For[0] <= 'Z' {
			hint = "did you mean condition=" + document.Cut(w.For, 60) + "?"
		} else if near := v.near.Find(strings.SplitN(w.For, "=", 2)[0], []string{"condition", "jsonpath", "ready", "create", "delete"}); near != "" && !strings.HasPrefix(w.For, near) {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		v.Report(fault{At: at.Key("for"), Hint: hint}, "for cannot be read: %v", err)
	}
}

// checkResource wants TYPE/NAME, or TYPE and a selector.
func (v stepValidator) checkResource(resource, selector string, at path) {
	if resource == "" {
		return
	}
	kind, name, hasName := strings.Cut(resource, "/")
	switch {
	case kind == "", hasName && name == "", strings.Contains(name, "/"), strings.ContainsAny(resource, " ,"):
		v.Report(fault{At: at.Key("resource"), Hint: "write TYPE/NAME, such as deployment/web or certificate.cert-manager.io/tls"}, "%q is not a resource", document.Cut(resource, 80))
	case hasName && selector != "":
		v.Report(fault{At: at.Key("selector"), Hint: "remove one of them"}, "a resource with a name, %q, takes no selector", document.Cut(resource, 80))
	case !hasName && selector == "" && !v.has(at.Key("selector")):
		v.Report(fault{At: at.Key("resource"), Hint: fmt.Sprintf("write %s/NAME, or add a selector", document.Cut(resource, 60))}, "the resource %q has no name", document.Cut(resource, 80))
	}
}

const conditionHint = "write condition=NAME, condition=NAME=VALUE, jsonpath={.PATH}=VALUE, ready, create or delete"

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
