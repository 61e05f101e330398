package k0rdent

import (
	"cmp"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
	"github.com/kplan-dev/kplan/plan"
)

// service is a service on a cluster, which became a step.
type service struct {
	*importer
	v               *foreign.Value
	name, namespace string
	// from is the namespace of the object that it is of: templates and values are there.
	from string
	step *foreign.Step
}

// servicesOf makes a step of each service of an object, on a cluster; with nil on one
// that is called as the object.
func (im *importer) servicesOf(o *object.Object, from string, on *cluster) []*service {
	spec := o.Get("spec", "serviceSpec")
	for _, name := range []string{"priority", "syncMode", "stopOnConflict", "reload", "provider", "continueOnError", "templateResourceRefs", "driftIgnore", "driftExclusions"} {
		if v := spec.Get(name); name == "priority" || name == "syncMode" || name == "reload" {
			v.Take() // how Sveltos works
		}
	}
	var all []*service
	for _, v := range spec.Get("services").Items() {
		s := &service{importer: im, v: v, from: from, name: v.Get("name").Text()}
		s.namespace = cmp.Or(v.Get("namespace").Text(), s.name) // as k0rdent has it
		if v.Get("disable").Or(false) {
			v.Changed("", "the service %s is disabled, and not in the plan", s.name)
			continue
		}
		if s.name == "" {
			v.Lost("give it a name", "a service without a name is not imported")
			continue
		}
		im.step(s, o, on)
		all = append(all, s)
	}
	return all
}

// step makes the step of a service.
func (im *importer) step(s *service, o *object.Object, on *cluster) {
	name := ""
	if on != nil {
		on.use()
		name = on.name
	} else {
		name = im.plan.Cluster(o.Name)
	}
	if action := s.v.Get("helmAction").Text(); action == "Uninstall" {
		s.step = im.plan.Add(&foreign.Step{Kind: plan.KindDelete}, "remove-"+s.name, name+"-remove-"+s.name)
		s.step.Fields.Set("release", s.name)
		s.step.Fields.Set("namespace", s.namespace)
		s.v.Take()
	} else {
		s.step = im.plan.Add(&foreign.Step{Kind: plan.KindHelm}, s.name, name+"-"+s.name)
		if s.step.Name != s.name {
			s.step.Fields.Set("release", s.name)
		}
		s.chart()
		s.step.Fields.Set("namespace", s.namespace)
		s.step.Fields.Set("create_namespace", true) // as Sveltos does
		s.values()
		s.options()
	}
	s.step.Cluster = name
	if on != nil {
		s.step.Need(on.ready, "")
	}
}

// values takes the values, which are a text.
func (s *service) values() {
	var values *yaml.Node
	if v := s.v.Get("values"); v.Given() {
		made, ok := foreign.Inline(v)
		switch {
		case strings.Contains(v.Peek(), "{{"):
			v.Lost("write them into values, with variables of the plan or of a Secret in the place of {{ }}", "the values of %s are a template of Sveltos, and not imported", s.name)
		case !ok:
			v.Lost("write them into values", "the values of %s are no mapping", s.name)
		case made != nil:
			values = s.plan.Conceal(s.name, made, v)
		}
	}
	for _, from := range s.v.Get("valuesFrom").Items() {
		kind, name := from.Get("kind").Text(), from.Get("name").Text()
		from.Lost("write them into a file: kubectl get "+strings.ToLower(kind)+" "+name+" -n "+cmp.Or(s.from, system)+" -o yaml, and name it in values_files", "values of the %s %s are not known here", kind, name)
	}
	if values != nil {
		s.step.Fields.Set("values", values)
	}
}

// options takes the options of Helm.
func (s *service) options() {
	f, o := &s.step.Fields, s.v.Get("helmOptions")
	wait := o.Get("wait").Or(false)
	atomic := o.Get("atomic").Or(false)
	if !wait && !atomic {
		o.Get("wait").Take() // a plan waits until all is ready, which harms nobody
	}
	if o.Get("waitForJobs").Or(false) {
		f.Set("wait_for_jobs", true)
	}
	if atomic {
		f.Set("on_failure", string(plan.RollbackRelease))
	}
	for _, flag := range [][2]string{{"skipCRDs", "skip_crds"}, {"disableHooks", "disable_hooks"}, {"reuseValues", "reuse_values"}, {"resetValues", "reset_values"}} {
		if v := o.Get(flag[0]); v.Or(false) && flag[1] == "skip_crds" {
			f.Set("crds", string(plan.SkipCRDs))
		} else if v.Or(false) {
			f.Set(flag[1], true)
		}
	}
	if o.Get("createNamespace").Given() && !o.Get("createNamespace").Or(true) {
		f.Set("create_namespace", false)
	}
	if d, err := time.ParseDuration(o.Get("timeout").Peek()); err == nil && d >= time.Second {
		o.Get("timeout").Take()
		s.step.Timeout = d
	}
	if n, ok := o.Get("maxHistory").Int(); ok {
		f.Set("max_history", n)
	}
	f.Set("description", o.Get("description").Text())
}

// link lets the services of one object need those that they depend on.
func (im *importer) link(all []*service) {
	for _, s := range all {
		for _, d := range s.v.Get("dependsOn").Items() {
			name, namespace := d.Get("name").Text(), d.Get("namespace").Text()
			found := false
			for _, other := range all {
				if other != s && other.name == name && (namespace == "" || other.namespace == namespace) {
					s.step.Need(other.step, "")
					found = true
				}
			}
			if !found {
				d.Lost("say by needs what comes first", "the service %s, on which %s depends, is not among those of the same object", name, s.name)
			}
		}
	}
}
