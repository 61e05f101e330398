package helmfile

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan"
)

// release is a release that became a step.
type release struct {
	name, namespace, context string
	// first and last are its steps: hooks may stand before and after it.
	first, last *foreign.Step
	needs       *foreign.Value
	// after are the releases of the helmfile that comes before this one.
	after []*release
}

// scope is a release that is being imported.
type scope struct {
	*state
	v       *foreign.Value
	step    *foreign.Step
	release release
}

// release imports one release; nil when nothing can be made of it.
func (st *state) release(v *foreign.Value) *release {
	s := &scope{state: st, v: v}
	s.inherit()
	name := v.Get("name").Text()
	if name == "" || hasUnknown(name) {
		v.Lost(build, "the release has no name that is known here, and is not imported")
		return nil
	}
	s.release.name = name
	own := v.Get("namespace").Text()
	s.release.namespace = cmp.Or(st.given("namespace").Text(), own)
	own, outer, all := v.Get("kubeContext").Text(), st.given("helmDefaults", "kubeContext").Text(), st.given("kubeContext").Text()
	s.release.context = cmp.Or(own, outer, all)
	s.release.namespace = s.known(v.Get("namespace"), s.expand(s.release.namespace))
	s.release.context = s.known(v.Get("kubeContext"), s.release.context)
	if installed, ok := v.Get("installed").Bool(); ok && !installed {
		s.uninstall()
		return &s.release
	}
	s.step = st.plan.Helm(name, s.release.namespace)
	s.where()
	s.whether()
	s.chartOf()
	if s.release.namespace != "" {
		s.step.Fields.Set("namespace", s.release.namespace)
		if s.flag("createNamespace", true) { // as helmfile, whatever helm does
			s.step.Fields.Set("create_namespace", true)
		}
	}
	s.values()
	s.behaviour()
	s.release.first, s.release.last = s.step, s.step
	s.hooks()
	return &s.release
}

// inherit tells of templates that the release takes its fields from, which YAML's own
// merge keys do better.
func (s *scope) inherit() {
	if v := s.v.Get("inherit"); v.Given() {
		v.Lost(build, "what the release inherits from templates is not imported")
	}
}

// known is a text, or "" when it depends on what cannot be rendered; that is told.
func (s *scope) known(at *foreign.Value, text string) string {
	if !hasUnknown(text) {
		return text
	}
	at.Lost(build, "the field %s depends on a template", at.Name())
	return ""
}

// text takes a text of the release with its fields put in.
func (s *scope) text(v *foreign.Value) string { return s.known(v, s.expand(v.Text())) }

// expand puts fields of the release in the place of {{ .Release.NAME }}.
func (s *scope) expand(text string) string {
	return releaseField.ReplaceAllStringFunc(text, func(m string) string {
		found := releaseField.FindStringSubmatch(m)
		switch found[1] {
		case "Name":
			return s.release.name
		case "Namespace":
			return s.release.namespace
		case "Chart":
			return s.v.Get("chart").Peek()
		case "KubeContext":
			return s.release.context
		}
		return s.v.Get("labels").Get(found[2]).Peek()
	})
}

// flag is a field of the release, or of helmDefaults.
func (s *scope) flag(name string, otherwise bool) bool {
	outer := s.given("helmDefaults", name).Or(otherwise)
	return s.v.Get(name).Or(outer)
}

// setting is a field of the release, or of helmDefaults.
func (s *scope) setting(name string) *foreign.Value {
	if v := s.v.Get(name); v.Given() {
		s.given("helmDefaults", name).Take()
		return v
	}
	return s.given("helmDefaults", name)
}

// uninstall makes a step that removes the release, as helmfile does.
func (s *scope) uninstall() {
	s.step = s.plan.Add(&foreign.Step{Kind: plan.KindDelete, Comments: []string{"installed: false"}}, "remove-"+s.release.name)
	s.step.Fields.Set("release", s.release.name)
	s.step.Fields.Set("namespace", s.release.namespace)
	s.where()
	s.whether()
	s.release.first, s.release.last = s.step, s.step
	s.v.Take() // nothing else of a release that is not to be there matters
}

// where says on which cluster the step works, and by which tags it is picked.
func (s *scope) where() {
	if c := s.release.context; c != "" {
		s.step.Cluster = s.plan.Cluster(c)
	}
	if s.release.needs = s.v.Get("needs"); s.release.needs.IsList() {
		s.release.needs.Take() // they are linked when all releases are known
	}
	labels := map[string]string{}
	var names []string
	add := func(v *foreign.Value) {
		for _, f := range v.Fields() {
			if _, known := labels[f.Name()]; !known {
				names = append(names, f.Name())
			}
			labels[f.Name()] = s.text(f)
		}
	}
	for _, p := range s.parts {
		add(p.Get("commonLabels"))
	}
	add(s.v.Get("labels"))
	for _, name := range names {
		// Helmfile build adds these, which every release has.
		if own := map[string]string{"name": s.release.name, "namespace": s.release.namespace, "chart": path.Base(s.v.Get("chart").Peek())}; own[name] == labels[name] {
			continue
		}
		if tag := foreign.Tag(name + "-" + labels[name]); tag != "" && !slices.Contains(s.step.Tags, tag) {
			s.step.Tags = append(s.step.Tags, tag)
		}
	}
	if s.flag("syncReleaseLabels", false) && s.step.Kind == plan.KindHelm {
		s.step.Fields.Set("labels", labels)
	}
}

// whether says if the step runs at all.
func (s *scope) whether() {
	var when []string
	if c := s.v.Get("condition"); c.Given() {
		code := strings.TrimSpace(c.Text())
		if pathOf(code) == code && code != "" {
			when = append(when, "vars."+code)
		} else {
			c.Lost("say it by when", "the condition is not understood")
		}
	}
	if v := s.v.Get("installed"); v.IsText() {
		if code, ok := foreign.OnlyExpr(v.Text()); ok {
			when = append(when, code)
			v.Changed("remove it with kplan down, or a step with delete", "a release that is not to be there is left alone, and not uninstalled as by helmfile")
		} else if hasUnknown(v.Peek()) {
			v.Lost(build, "whether the release is to be there depends on a template: it is in the plan")
		}
	}
	if len(when) > 0 {
		s.step.When = foreign.Expr(strings.Join(when, " && "))
	}
}

// behaviour takes what says how helm installs.
func (s *scope) behaviour() {
	f := &s.step.Fields
	atomic := s.flag("atomic", false)
	atomic = s.flag("rollbackOnFailure", false) || atomic
	jobs := s.flag("waitForJobs", false)
	switch wait := s.flag("wait", false); {
	case !wait && !atomic && !jobs:
		f.Set("wait", string(plan.WaitHooks)) // what helm does without --wait
	case jobs:
		f.Set("wait_for_jobs", true)
	}
	if atomic {
		f.Set("on_failure", string(plan.RollbackRelease))
	}
	if n, ok := s.setting("timeout").Int(); ok && n > 0 {
		s.step.Timeout = time.Duration(n) * time.Second
	}
	if n, ok := s.setting("historyMax").Int(); ok && n != plan.DefaultMaxHistory {
		f.Set("max_history", n)
	}
	for _, flag := range [][2]string{
		{"reuseValues", "reuse_values"}, {"takeOwnership", "take_ownership"}, {"forceConflicts", "force_conflicts"}, {"plainHttp", "plain_http"},
	} {
		if s.flag(flag[0], false) {
			f.Set(flag[1], true)
		}
	}
	if s.flag("skipCRDs", false) {
		f.Set("crds", string(plan.SkipCRDs))
	}
	switch side := s.text(s.setting("serverSide")); side {
	case "":
	case "true", "false", "auto":
		f.Set("server_side", side)
	}
	f.Set("description", s.text(s.v.Get("description")))
	s.noMatter()
}

// noMatter takes fields that are at their default, or that say how helmfile itself works.
func (s *scope) noMatter() {
	for _, name := range []string{
		"skipDeps", "skipRefresh", "suppressDiff", "suppressOutputLineRegex", "disableAutoDetectedKubeVersionForDiff", "resolveOCIVersions",
		"deleteWait", "deleteTimeout", "cascade", "unitTests", "missingFileHandler", "missingFileHandlerConfig",
	} {
		s.v.Get(name).Take()
	}
	for _, name := range []string{
		"force", "recreatePods", "cleanupOnFail", "disableValidation", "disableOpenAPIValidation", "disableValidationOnInstall", "skipSchemaValidation",
		"enableDNS", "devel", "verify", "insecureSkipTLSVerify", "forceGoGetter", "trackLogs", "trackFailedLogs", "trackFailOnError",
	} {
		for _, v := range []*foreign.Value{s.v.Get(name), s.given("helmDefaults", name)} {
			if v.Peek() == "false" {
				v.Take()
			}
		}
	}
}

// linkNeeds lets steps need those of other releases.
func (im *importer) linkNeeds() {
	for _, r := range im.releases {
		for _, other := range r.after {
			if isLast(other, r.after) {
				r.first.Need(other.last, "")
			}
		}
		for _, need := range r.needs.Items() {
			name := need.Text()
			other := im.find(name, r)
			switch {
			case hasUnknown(name):
				need.Lost(build, "which release comes first depends on a template")
			case other == nil:
				need.Lost("import the file that has it too, or drop the need", "the release %s that comes first is not in these files", name)
			default:
				r.first.Need(other.last, "")
			}
		}
	}
}

// isLast reports whether none of the releases needs this one.
func isLast(r *release, all []*release) bool {
	return !slices.ContainsFunc(all, func(other *release) bool {
		return slices.ContainsFunc(other.needs.Items(), func(n *foreign.Value) bool { return other != r && matches(n.Peek(), r, other) })
	})
}

// find is the release that [CONTEXT/][NAMESPACE/]NAME means to another one.
func (im *importer) find(name string, by *release) *release {
	for _, r := range im.releases {
		if r != by && matches(name, r, by) {
			return r
		}
	}
	// A name alone means one of another namespace too, if there is but one.
	var found []*release
	for _, r := range im.releases {
		if r != by && r.name == path.Base(name) && !strings.Contains(name, "/") {
			found = append(found, r)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return nil
}

func matches(name string, r, by *release) bool {
	parts := strings.Split(name, "/")
	context, namespace := by.context, by.namespace
	switch len(parts) {
	case 1:
	case 2:
		namespace = parts[0]
	default:
		namespace = parts[len(parts)-2]
		context = strings.Join(parts[:len(parts)-2], "/")
	}
	return r.name == parts[len(parts)-1] && r.namespace == namespace && (r.context == context || len(parts) < 3 && by.context == "")
}
