package flux

import (
	"cmp"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// release is a HelmRelease that became a step.
type release struct {
	*importer
	v *object.Object
	// objectName and objectNamespace are of the HelmRelease, name and namespace of the
	// release.
	objectName, objectNamespace, name, namespace string
	group                                        *group
	step                                         *foreign.Step
}

// release imports a HelmRelease; nil when it is not imported.
func (im *importer) release(o *object.Object, g *group) *release {
	spec := o.Get("spec")
	r := &release{importer: im, v: o, group: g, objectName: o.Name, objectNamespace: im.tree.namespace(o)}
	key := r.objectNamespace + "/" + o.Name
	if o.Name == "" || im.releases[key] != nil {
		o.Lost("import the files of one cluster at a time", "there are two of %s, and this one is not imported", o)
		return nil
	}
	if !spec.Get("chart").Given() && !spec.Get("chartRef").Given() {
		o.Lost("import what the overlay becomes: kustomize build FOLDER | kplan import flux -", "%s has no chart: it is a patch, and not imported", o)
		return nil
	}
	o.TakeHead()
	target := spec.Get("targetNamespace").Text()
	r.namespace = cmp.Or(target, r.objectNamespace)
	r.name = o.Name
	if target != "" {
		r.name = target + "-" + o.Name // as helm-controller names it
	}
	r.name = cmp.Or(spec.Get("releaseName").Text(), r.name)
	if strings.HasPrefix(o.Version, "v2beta") {
		o.Get("apiVersion").Changed("", "%s is read as v2", o.Version)
	}
	r.step = im.plan.Helm(r.name, r.namespace)
	r.step.Cluster = cmp.Or(im.remote(spec.Get("kubeConfig"), r.objectNamespace), g.cluster)
	im.chart(r)
	r.step.Fields.Set("namespace", r.namespace)
	r.values()
	for _, field := range []string{"chart", "version"} {
		r.substitute(r.step.Fields.Value(field))
	}
	r.behaviour()
	r.record(spec.Get("storageNamespace"))
	im.releases[key] = r
	im.order = append(im.order, r)
	return r
}

// record tells of a release whose record Flux keeps in another namespace than Helm would.
func (r *release) record(v *foreign.Value) {
	storage := cmp.Or(v.Text(), r.objectNamespace)
	if storage == r.namespace || storage == "" {
		return
	}
	at := v
	if !at.Given() {
		at = r.v.Get("spec", "targetNamespace")
	}
	at.Changed("when the plan has run, delete the old one: kubectl delete secret -n "+storage+" -l owner=helm,name="+r.name,
		"Flux keeps the record of the release in the namespace %s: kplan makes a new one in %s, and takes the objects over", storage, r.namespace)
}

// depend adds what the release depends on.
func (r *release) depend() {
	for _, d := range r.v.Get("spec", "dependsOn").Items() {
		name := d.Get("name").Text()
		namespace := cmp.Or(d.Get("namespace").Text(), r.objectNamespace)
		other := r.releases[namespace+"/"+name]
		if other == nil {
			other = r.releases["/"+name]
		}
		switch {
		case other == nil:
			d.Lost("import its file too, or be sure that it is installed before", "the HelmRelease %s/%s is not in the files", namespace, name)
		case reaches(other.step, r.step):
			d.Lost("", "%s depends on this one itself", name)
		default:
			r.step.Need(other.step, "")
		}
		if ready := d.Get("readyExpr"); ready.Given() {
			ready.Lost("write a step with wait between them", "the step does not ask the expression, only whether %s has succeeded", name)
		}
	}
}

// behaviour takes how the release is installed.
func (r *release) behaviour() {
	f, spec := &r.step.Fields, r.v.Get("spec")
	install, upgrade := spec.Get("install"), spec.Get("upgrade")
	for _, name := range []string{"interval", "persistentClient"} {
		spec.Get(name).Take()
	}
	if install.Get("createNamespace").Or(false) {
		f.Set("create_namespace", true)
	}
	r.crds(install, upgrade)
	if n, ok := spec.Get("maxHistory").Int(); ok {
		f.Set("max_history", n)
	}
	if !install.Get("disableTakeOwnership").Or(false) {
		f.Set("take_ownership", true) // helm-controller does so by default
	}
	upgrade.Get("disableTakeOwnership").Take()
	if r.both(install, upgrade, "disableWait") {
		f.Set("wait", "hooks")
	} else if !r.both(install, upgrade, "disableWaitForJobs") {
		f.Set("wait_for_jobs", true) // so does it by default
	}
	if r.both(install, upgrade, "disableHooks") {
		f.Set("disable_hooks", true)
	}
	if upgrade.Get("preserveValues").Or(false) {
		f.Set("reuse_values", true)
	}
	drift := spec.Get("driftDetection")
	switch mode := drift.Get("mode").Text(); mode {
	case "warn":
		f.Set("drift", "report")
	case "disabled":
		f.Set("drift", "ignore")
	}
	r.retries(install, upgrade)
	if s := spec.Get("suspend"); s.Or(false) {
		s.Changed("take the step out, or give it when: false", "the HelmRelease is suspended, and its step is in the plan all the same")
	}
}

// both takes a field of install and upgrade. Where they differ it is that of install, and
// that is told.
func (r *release) both(install, upgrade *foreign.Value, name string) bool {
	a, b := install.Get(name).Or(false), upgrade.Get(name).Or(false)
	if a != b {
		at := install.Get(name)
		if b {
			at = upgrade.Get(name)
		}
		at.Changed("", "%s differs between install and upgrade: the plan does as install does", name)
	}
	return a
}

// crds takes what happens to the chart's definitions.
func (r *release) crds(install, upgrade *foreign.Value) {
	i, u := install.Get("crds").Text(), upgrade.Get("crds").Text()
	switch {
	case u == "CreateReplace":
		r.step.Fields.Set("crds", "upgrade")
	case i == "Skip" || install.Get("skipCRDs").Or(false):
		r.step.Fields.Set("crds", "skip")
	case u == "Create":
		upgrade.Get("crds").Changed("crds: upgrade brings them all up to date", "definitions that an upgrade brings are not created: as Helm, an install alone does so")
	}
}

// retries takes how often an attempt is made, and what becomes of a failed one.
func (r *release) retries(install, upgrade *foreign.Value) {
	in, up := install.Get("remediation"), upgrade.Get("remediation")
	n, given := in.Get("retries").Int()
	if m, ok := up.Get("retries").Int(); ok && (m > n || m < 0) {
		if given {
			up.Get("retries").Changed("", "install and upgrade have other numbers of retries: the plan has the larger one for both")
		}
		n = m
	} else if ok && given && m != n {
		up.Get("retries").Changed("", "install and upgrade have other numbers of retries: the plan has the larger one for both")
	}
	forever := n < 0
	for _, s := range []*foreign.Value{install.Get("strategy"), upgrade.Get("strategy")} {
		if s.Get("name").Text() == "RetryOnFailure" {
			forever = true
			if d := duration(s.Get("retryInterval")); d > 0 {
				r.step.Retry.Set("retry_delay_seconds", int(d.Seconds()))
			}
		}
	}
	if forever {
		n = 4
		at := r.v.Get("kind")
		for _, v := range []*foreign.Value{up.Get("retries"), in.Get("retries"), upgrade.Get("strategy"), install.Get("strategy")} {
			if v.Given() {
				at = v
			}
		}
		at.Changed("say it by retry.install_retries", "Flux tries for ever, the plan %d times", n+1)
	}
	if n > 0 {
		r.step.Retry.Set("install_retries", n+1)
	}
	// The timeout of Flux is for one attempt, that of a step for all.
	timeout := cmp.Or(duration(r.v.Get("spec", "timeout")), 5*time.Minute)
	r.step.Timeout = min(timeout*time.Duration(n+1), 24*time.Hour)
	strategy := up.Get("strategy").Text()
	upgradeBack := n > 0 && up.Given() && up.Get("remediateLastFailure").Or(true)
	installBack := n > 0 && in.Given() && in.Get("remediateLastFailure").Or(false)
	switch {
	case upgradeBack && strategy != "uninstall":
		r.step.Fields.Set("on_failure", "rollback")
	case installBack || upgradeBack:
		r.step.Fields.Set("on_failure", "uninstall")
	}
	in.Get("ignoreTestFailures").Take()
	up.Get("ignoreTestFailures").Take()
}

// duration takes a time such as 5m; 0 for all else.
func duration(v *foreign.Value) time.Duration {
	d, err := time.ParseDuration(v.Peek())
	if err != nil || d < time.Second || d > 24*time.Hour {
		return 0
	}
	v.Take()
	return d
}
