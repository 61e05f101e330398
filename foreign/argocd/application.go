package argocd

import (
	"cmp"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
	"github.com/kplan-dev/kplan/plan"
)

// application is an Application, whose sources become steps.
type application struct {
	*importer
	v                  *object.Object
	wave               int
	namespace, cluster string
	// automated reports whether Argo CD syncs by itself.
	automated bool
	policy    policy
	// refs are the folders of the sources that others read values from, by their names;
	// "" for one that is not at hand.
	refs map[string]string
	made []*foreign.Step
	// members are the objects of the files that its steps apply.
	members []*object.Object
	// followed reports whether its source has Applications that are imported themselves.
	followed bool
	// laid are the overlays that it leads to.
	laid []*overlay
}

// policy is how an Application is synced.
type policy struct {
	createNamespace, prune bool
	// attempts are 0 when nothing is said.
	attempts int
	delay    time.Duration
}

// application reads what an Application says of all its sources.
func (im *importer) application(o *object.Object) *application {
	a := &application{importer: im, v: o, refs: map[string]string{}}
	if n, err := strconv.Atoi(o.Annotation("argocd.argoproj.io/sync-wave")); err == nil {
		a.wave = n
	}
	o.TakeHead()
	o.Get("operation").Take()
	spec := o.Get("spec")
	if p := spec.Get("project"); p.Text() != "default" && p.Given() {
		p.Changed("", "the project %s does not bound what the plan may do", p.Peek())
	}
	for _, name := range []string{"revisionHistoryLimit", "info"} {
		spec.Get(name).Take()
	}
	a.destination(spec.Get("destination"))
	a.sync(spec.Get("syncPolicy"))
	return a
}

// destination takes where the Application installs.
func (a *application) destination(v *foreign.Value) {
	a.namespace = v.Get("namespace").Text()
	server, name := v.Get("server"), v.Get("name")
	at := server
	if name.Given() {
		at = name
	}
	if where := cmp.Or(name.Text(), server.Text()); where != "" && where != "in-cluster" && where != "https://kubernetes.default.svc" {
		a.cluster = a.plan.Cluster(where)
		at.Changed("name the context of your kubeconfig under clusters of the plan", "the cluster %s of Argo CD is the context of that name", where)
	}
}

// sync takes how the Application is synced.
func (a *application) sync(v *foreign.Value) {
	if auto := v.Get("automated"); auto.Given() {
		a.automated = auto.Get("enabled").Or(true)
		a.policy.prune = auto.Get("prune").Or(false)
		if auto.Get("selfHeal").Or(false) {
			auto.Get("selfHeal").Changed("run it by a schedule, if it has to", "what others change is put right by a run of the plan, and not between runs")
		}
		auto.Get("allowEmpty").Take()
	}
	retry := v.Get("retry")
	switch n, ok := retry.Get("limit").Int(); {
	case ok && n >= 0:
		a.policy.attempts = n + 1
	case ok:
		a.policy.attempts = 5
		retry.Get("limit").Changed("say it by retry.install_retries", "Argo CD tries for ever, the plan 5 times")
	}
	if d, err := time.ParseDuration(retry.Get("backoff", "duration").Text()); err == nil && d >= time.Second {
		a.policy.delay = d
	}
	retry.Get("refresh").Take()
	backoff := retry.Get("backoff")
	backoff.Get("factor").Take() // kplan waits longer each time as well
	backoff.Get("maxDuration").Take()
	for _, item := range v.Get("syncOptions").Items() {
		a.option(item)
	}
}

// noMatter are sync options that say how Argo CD itself works.
var noMatter = map[string]bool{
	"ApplyOutOfSyncOnly": true, "PruneLast": true, "PrunePropagationPolicy": true, "RespectIgnoreDifferences": true, "SkipDryRunOnMissingResource": true,
	"ServerSideApply": true, "ClientSideApplyMigration": true,
}

func (a *application) option(item *foreign.Value) {
	name, value, _ := strings.Cut(item.Peek(), "=")
	switch {
	case name == "CreateNamespace":
		item.Take()
		a.policy.createNamespace = value == "true"
	case noMatter[name], value == "false" && name != "Validate":
		item.Take()
	case name == "Validate":
		item.Lost("mend the objects that the API server refuses", "objects are validated all the same")
	case name == "FailOnSharedResource":
		item.Changed("", "objects of another release fail the step only if take_ownership is taken out")
	default:
		item.Lost("on_immutable: recreate of an apply step replaces what cannot be changed", "the sync option %s is not imported", item.Peek())
	}
}

// steps makes a step of each source.
func (a *application) steps() {
	spec := a.v.Get("spec")
	sources := spec.Get("sources").Items()
	if len(sources) == 0 {
		if one := spec.Get("source"); one.IsMap() {
			sources = []*foreign.Value{one}
		} else if h := spec.Get("sourceHydrator"); h.IsMap() {
			h.Lost("import the Application with the source that is hydrated", "the source of %s is rendered by Argo CD before", a.v.Name)
			return
		}
	}
	for _, s := range sources {
		if ref := s.Get("ref").Text(); ref != "" {
			a.refs["$"+ref] = a.root(s)
		}
	}
	for _, s := range sources {
		if s.Get("chart").Peek() != "" || s.Get("path").Peek() != "" || !s.Get("ref").Given() {
			a.source(s)
		} else {
			s.Get("repoURL").Take()
			s.Get("targetRevision").Take()
		}
	}
}

// finish adds what the Application says of each of its steps.
func (a *application) finish(s *foreign.Step) {
	s.Cluster = a.cluster
	if a.policy.attempts > 1 {
		s.Retry.Set("install_retries", a.policy.attempts)
		if a.policy.delay > 0 {
			s.Retry.Set("retry_delay_seconds", int(a.policy.delay.Seconds()))
		}
	}
	a.made = append(a.made, s)
}

// makeNamespace makes a step with the namespace of objects that are applied, if Argo CD
// is told to make it; nil if not.
func (a *application) makeNamespace() *foreign.Step {
	if !a.policy.createNamespace || a.namespace == "" {
		return nil
	}
	key := a.cluster + "/" + a.namespace
	if made := a.namespaces[key]; made != nil {
		return made
	}
	ns := &foreign.Step{Kind: plan.KindApply, Cluster: a.cluster}
	var o, meta foreign.Fields
	o.Set("apiVersion", "v1")
	o.Set("kind", "Namespace")
	meta.Set("name", a.namespace)
	o.Set("metadata", &meta)
	ns.Fields.Set("objects", foreign.List(o.Node()))
	a.namespaces[key] = a.plan.Add(ns, "namespace-"+a.namespace)
	return ns
}

// root is the folder that a source's repository is in; "" when it is not at hand. Nobody
// says so: it is the highest folder that has one of the files which are read from there.
func (a *application) root(s *foreign.Value) string {
	var names []string
	for _, other := range a.v.Get("spec", "sources").Items() {
		for _, f := range other.Get("helm", "valueFiles").Items() {
			if ref, rest, ok := strings.Cut(f.Peek(), "/"); ok && ref == "$"+s.Get("ref").Peek() {
				names = append(names, rest)
			}
		}
	}
	return a.above(a.v.File, names)
}

// above is the closest folder above a file in which one of the names is; "" for none.
func (im *importer) above(file string, names []string) string {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		for _, name := range names {
			if _, err := im.in.Read(path.Join(dir, name)); err == nil {
				return dir
			}
		}
		if dir == "." || dir == "/" {
			return ""
		}
	}
}
