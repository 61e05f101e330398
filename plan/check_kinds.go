package plan

import (
	"fmt"
	"strings"
)

func (c *checker) checkHelm(s Step, at path) {
	h := *s.Helm
	c.checkLabel(h.Namespace, at.key("namespace"))
	c.checkRelease(s, at)
	c.checkNotEmpty(h.ValuesFiles, at.key("values_files"))
	chart, repo := at.key("chart"), at.key("repo")
	switch {
	case h.Chart == "":
		if c.isEmptyText(chart) {
			c.addValue(chart, "", "the chart is empty")
		}
	case h.IsLocal():
		if h.Repo != "" {
			c.addKey(repo, "remove it, or give the chart's name without the path", "repo is of no use for the chart %q, which is a path", cut(h.Chart, 80))
		}
	case h.IsOCI():
		if h.Repo != "" {
			c.addKey(repo, "remove it: oci:// names the registry already", "repo is of no use for an oci:// chart")
		}
		if strings.Trim(strings.TrimPrefix(h.Chart, "oci://"), "/") == "" || !strings.Contains(strings.TrimPrefix(h.Chart, "oci://"), "/") {
			c.addValue(chart, "write oci://HOST/PATH/CHART", "the address %q names no chart", cut(h.Chart, 80))
		}
		if _, tag := h.OCITag(); tag != "" && h.Version != "" && tag != strings.ReplaceAll(h.Version, "+", "_") {
			c.addValue(at.key("version"), "write the version once", "the chart has the tag %q, but the version is %q", cut(tag, 80), cut(h.Version, 80))
		}
	case strings.Contains(h.Chart, "://"):
		c.addValue(chart, "give oci://HOST/PATH, a path such as ./chart, or the chart's name together with repo", "charts cannot be read from %q", cut(h.Chart, 80))
	case !c.has(repo):
		hint := "give repo: https://…, or write ./" + cut(h.Chart, 60) + " for a folder"
		if alias, name, found := strings.Cut(h.Chart, "/"); found && !strings.HasSuffix(name, ".tgz") {
			hint = fmt.Sprintf("names from helm repo add are not known here: write chart: %s and repo: with the address of %s, or ./%s for a folder", cut(name, 60), cut(alias, 60), cut(h.Chart, 60))
		}
		c.addValue(chart, hint, "it is not said where the chart %q comes from", cut(h.Chart, 80))
	case h.Repo != "" && !strings.HasPrefix(h.Repo, "https://") && !strings.HasPrefix(h.Repo, "http://"):
		hint := "write https://…"
		if strings.HasPrefix(h.Repo, "oci://") {
			hint = "write chart: " + cut(strings.TrimSuffix(h.Repo, "/")+"/"+h.Chart, 100) + " and no repo"
		}
		c.addValue(repo, hint, "%q is not the address of a chart repository", cut(h.Repo, 80))
	}
}

// checkRelease knows that Helm allows fewer characters than a step's name has.
func (c *checker) checkRelease(s Step, at path) {
	name := s.ReleaseName()
	if name == "" || (len(name) <= maxReleaseName && dnsSubdomain.MatchString(name)) {
		return
	}
	if s.Helm.Release != "" {
		c.addValue(at.key("release"), fmt.Sprintf("use small letters, digits, - and ., at most %d", maxReleaseName), "%q cannot be the name of a release", cut(name, 80))
	} else if !c.has(at.key("release")) && dnsLabel.MatchString(name) && len(name) <= 63 {
		c.addKey(at, "give a shorter name in release", "the step's name is too long for a release: %d characters, Helm takes %d", len(name), maxReleaseName)
	}
}

func (c *checker) checkApply(a Apply, at path) {
	c.checkLabel(a.Namespace, at.key("namespace"))
	c.checkNotEmpty(a.Files, at.key("files"))
	if !c.has(at.key("files")) && !c.has(at.key("objects")) || c.emptyLists(at) {
		c.addKey(at, "give files or objects", "there is nothing to apply")
	}
	if a.Wait == WaitHooks {
		c.addValue(at.key("wait"), "write none or ready", "hooks are for helm steps only")
	}
	for i := range a.Objects {
		o, _ := c.value(at.key("objects").index(i)).(map[string]any)
		c.checkObject(o, at.key("objects").index(i))
	}
}

// emptyLists tells whether all lists of an apply step that are given are empty.
func (c *checker) emptyLists(at path) bool {
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
func (c *checker) checkObject(o map[string]any, at path) {
	if o == nil {
		return
	}
	for _, k := range []string{"apiVersion", "kind"} {
		switch v := o[k].(type) {
		case string, invalid, deferred:
		case nil:
			c.addValue(at, "", "the object has no %s", k)
		default:
			c.addValue(at.key(k), "", "expected text, got %s", describe(v))
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
			c.addValue(at, hint, "the object has no metadata.name")
		}
	default:
		c.addValue(at.key("metadata").key("name"), "quote it", "expected text, got %s", describe(meta["name"]))
	}
}

// checkNotEmpty reports empty paths in a list.
func (c *checker) checkNotEmpty(list []string, at path) {
	for i, s := range list {
		if s == "" && c.isEmptyText(at.index(i)) {
			c.addValue(at.index(i), "", "the path is empty")
		}
	}
}

func (c *checker) checkWait(w Wait, at path) {
	c.checkLabel(w.Namespace, at.key("namespace"))
	if w.Resource != "" {
		kind, name, hasName := strings.Cut(w.Resource, "/")
		switch {
		case kind == "", hasName && name == "", strings.Contains(name, "/"), strings.ContainsAny(w.Resource, " ,"):
			c.addValue(at.key("resource"), "write TYPE/NAME, such as deployment/web or certificate.cert-manager.io/tls", "%q is not a resource", cut(w.Resource, 80))
		case hasName && w.Selector != "":
			c.addValue(at.key("selector"), "remove one of them", "a resource with a name, %q, takes no selector", cut(w.Resource, 80))
		case !hasName && w.Selector == "" && !c.has(at.key("selector")):
			c.addValue(at.key("resource"), fmt.Sprintf("write %s/NAME, or add a selector", cut(w.Resource, 60)), "the resource %q has no name", cut(w.Resource, 80))
		}
	}
	if w.For == "" {
		if c.isEmptyText(at.key("for")) {
			c.addValue(at.key("for"), conditionHint, "for is empty")
		}
		return
	}
	if _, err := w.Condition(); err != nil {
		hint := conditionHint
		if len(w.For) > 0 && !strings.Contains(w.For, "=") && w.For[0] >= 'A' && w.For[0] <= 'Z' {
			hint = "did you mean condition=" + cut(w.For, 60) + "?"
		} else if near := c.nearest(strings.SplitN(w.For, "=", 2)[0], []string{"condition", "jsonpath", "create", "delete"}); near != "" && !strings.HasPrefix(w.For, near) {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		c.addValue(at.key("for"), hint, "for cannot be read: %v", err)
	}
}

const conditionHint = "write condition=NAME, condition=NAME=VALUE, jsonpath={.PATH}=VALUE, create or delete"
