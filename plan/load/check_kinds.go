package load

import (
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

func (c *checker) checkHelm(s plan.Step, at document.Path) {
	h := *s.Helm
	c.checkLabel(h.Namespace, at.Key("namespace"))
	c.checkRelease(s, at)
	c.checkNotEmpty(h.ValuesFiles, at.Key("values_files"))
	chart, repo := at.Key("chart"), at.Key("repo")
	switch {
	case h.Chart == "":
		if c.isEmptyText(chart) {
			c.Report(document.Fault{At: chart}, "the chart is empty")
		}
	case h.IsLocal():
		if h.Repo != "" {
			c.ReportField(document.Fault{At: repo, Hint: "remove it, or give the chart's name without the path"}, "repo is of no use for the chart %q, which is a path", document.Cut(h.Chart, 80))
		}
	case h.IsOCI():
		if h.Repo != "" {
			c.ReportField(document.Fault{At: repo, Hint: "remove it: oci:// names the registry already"}, "repo is of no use for an oci:// chart")
		}
		if strings.Trim(strings.TrimPrefix(h.Chart, "oci://"), "/") == "" || !strings.Contains(strings.TrimPrefix(h.Chart, "oci://"), "/") {
			c.Report(document.Fault{At: chart, Hint: "write oci://HOST/PATH/CHART"}, "the address %q names no chart", document.Cut(h.Chart, 80))
		}
		if _, tag := h.OCITag(); tag != "" && h.Version != "" && tag != strings.ReplaceAll(h.Version, "+", "_") {
			c.Report(document.Fault{At: at.Key("version"), Hint: "write the version once"}, "the chart has the tag %q, but the version is %q", document.Cut(tag, 80), document.Cut(h.Version, 80))
		}
	case strings.Contains(h.Chart, "://"):
		c.Report(document.Fault{At: chart, Hint: "give oci://HOST/PATH, a path such as ./chart, or the chart's name together with repo"}, "charts cannot be read from %q", document.Cut(h.Chart, 80))
	case !c.has(repo):
		hint := "give repo: https://…, or write ./" + document.Cut(h.Chart, 60) + " for a folder"
		if alias, name, found := strings.Cut(h.Chart, "/"); found && !strings.HasSuffix(name, ".tgz") {
			hint = fmt.Sprintf("names from helm repo add are not known here: write chart: %s and repo: with the address of %s, or ./%s for a folder", document.Cut(name, 60), document.Cut(alias, 60), document.Cut(h.Chart, 60))
		}
		c.Report(document.Fault{At: chart, Hint: hint}, "it is not said where the chart %q comes from", document.Cut(h.Chart, 80))
	case h.Repo != "" && !strings.HasPrefix(h.Repo, "https://") && !strings.HasPrefix(h.Repo, "http://"):
		hint := "write https://…"
		if strings.HasPrefix(h.Repo, "oci://") {
			hint = "write chart: " + document.Cut(strings.TrimSuffix(h.Repo, "/")+"/"+h.Chart, 100) + " and no repo"
		}
		c.Report(document.Fault{At: repo, Hint: hint}, "%q is not the address of a chart repository", document.Cut(h.Repo, 80))
	}
}

// checkRelease knows that Helm allows fewer characters than a step's name has.
func (c *checker) checkRelease(s plan.Step, at document.Path) {
	name := s.ReleaseName()
	if name == "" || (len(name) <= maxReleaseName && dnsSubdomain.MatchString(name)) {
		return
	}
	if s.Helm.Release != "" {
		c.Report(document.Fault{At: at.Key("release"), Hint: fmt.Sprintf("use small letters, digits, - and ., at most %d", maxReleaseName)}, "%q cannot be the name of a release", document.Cut(name, 80))
	} else if !c.has(at.Key("release")) && dnsLabel.MatchString(name) && len(name) <= 63 {
		c.ReportField(document.Fault{At: at, Hint: "give a shorter name in release"}, "the step's name is too long for a release: %d characters, Helm takes %d", len(name), maxReleaseName)
	}
}

func (c *checker) checkApply(a plan.Apply, at document.Path) {
	c.checkLabel(a.Namespace, at.Key("namespace"))
	c.checkNotEmpty(a.Files, at.Key("files"))
	if !c.has(at.Key("files")) && !c.has(at.Key("objects")) || c.emptyLists(at) {
		c.ReportField(document.Fault{At: at, Hint: "give files or objects"}, "there is nothing to apply")
	}
	if a.Wait == plan.WaitHooks {
		c.Report(document.Fault{At: at.Key("wait"), Hint: "write none or ready"}, "hooks are for helm steps only")
	}
	for i := range a.Objects {
		o, _ := c.value(at.Key("objects").Index(i)).(map[string]any)
		c.checkObject(o, at.Key("objects").Index(i))
	}
}

// emptyLists tells whether all lists of an apply step that are given are empty.
func (c *checker) emptyLists(at document.Path) bool {
	apply, _ := c.value(at).(map[string]any)
	total := 0
	for _, k := range []string{"files", "objects"} {
		list, ok := apply[k].([]any)
		if apply[k] != nil && !ok {
			return false
		}
		total += len(list)
	}
	return total == 0 && (apply["files"] != nil || apply["objects"] != nil)
}

// checkObject wants what every Kubernetes object has.
func (c *checker) checkObject(o map[string]any, at document.Path) {
	if o == nil {
		return
	}
	for _, k := range []string{"apiVersion", "kind"} {
		switch v := o[k].(type) {
		case string, invalid, deferred:
		case nil:
			c.Report(document.Fault{At: at}, "the object has no %s", k)
		default:
			c.Report(document.Fault{At: at.Key(k)}, "expected text, got %s", document.Describe(v))
		}
	}
	kind, _ := o["kind"].(string)
	if _, isList := o["items"].([]any); isList && strings.HasSuffix(kind, "List") {
		return
	}
	meta, _ := o["metadata"].(map[string]any)
	switch meta["name"].(type) {
	case string, invalid, deferred:
	case nil:
		hint := ""
		if meta["generateName"] != nil {
			hint = "server-side apply needs a name; generateName makes a new one each time"
		}
		if !isUnsaid(o["metadata"]) {
			c.Report(document.Fault{At: at, Hint: hint}, "the object has no metadata.name")
		}
	default:
		c.Report(document.Fault{At: at.Key("metadata").Key("name"), Hint: "quote it"}, "expected text, got %s", document.Describe(meta["name"]))
	}
}

// checkNotEmpty reports empty paths in a list.
func (c *checker) checkNotEmpty(list []string, at document.Path) {
	for i, s := range list {
		if s == "" && c.isEmptyText(at.Index(i)) {
			c.Report(document.Fault{At: at.Index(i)}, "the path is empty")
		}
	}
}

func (c *checker) checkWait(w plan.Wait, at document.Path) {
	c.checkLabel(w.Namespace, at.Key("namespace"))
	if w.Resource != "" {
		kind, name, hasName := strings.Cut(w.Resource, "/")
		switch {
		case kind == "", hasName && name == "", strings.Contains(name, "/"), strings.ContainsAny(w.Resource, " ,"):
			c.Report(document.Fault{At: at.Key("resource"), Hint: "write TYPE/NAME, such as deployment/web or certificate.cert-manager.io/tls"}, "%q is not a resource", document.Cut(w.Resource, 80))
		case hasName && w.Selector != "":
			c.Report(document.Fault{At: at.Key("selector"), Hint: "remove one of them"}, "a resource with a name, %q, takes no selector", document.Cut(w.Resource, 80))
		case !hasName && w.Selector == "" && !c.has(at.Key("selector")):
			c.Report(document.Fault{At: at.Key("resource"), Hint: fmt.Sprintf("write %s/NAME, or add a selector", document.Cut(w.Resource, 60))}, "the resource %q has no name", document.Cut(w.Resource, 80))
		}
	}
	if w.For == "" {
		if c.isEmptyText(at.Key("for")) {
			c.Report(document.Fault{At: at.Key("for"), Hint: conditionHint}, "for is empty")
		}
		return
	}
	if _, err := w.Condition(); err != nil {
		hint := conditionHint
		if len(w.For) > 0 && !strings.Contains(w.For, "=") && w.For[0] >= 'A' && w.For[0] <= 'Z' {
			hint = "did you mean condition=" + document.Cut(w.For, 60) + "?"
		} else if near := c.near.Find(strings.SplitN(w.For, "=", 2)[0], []string{"condition", "jsonpath", "create", "delete"}); near != "" && !strings.HasPrefix(w.For, near) {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		c.Report(document.Fault{At: at.Key("for"), Hint: hint}, "for cannot be read: %v", err)
	}
}

const conditionHint = "write condition=NAME, condition=NAME=VALUE, jsonpath={.PATH}=VALUE, create or delete"
