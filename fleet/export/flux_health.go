package export

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
)

// wait makes a wait step a health check of the Kustomization that brings the object.
func (f *fluxer) wait(s *step) {
	const hint = "add it to spec.healthChecks of the Kustomization that brings the object"
	o, check := f.brings(s)
	if o == nil {
		s.leave(hint, "Flux has no step that waits for %s", s.Wait.Resource)
		return
	}
	condition, isCondition := strings.CutPrefix(s.Wait.For, "condition=")
	name, value, _ := strings.Cut(condition, "=")
	switch {
	case s.Wait.For == "ready":
	case !isCondition || value != "" && !strings.EqualFold(value, "true"):
		s.leave(hint, "Flux does not wait for %s of %s: its health checks know readiness and conditions", s.Wait.For, s.Wait.Resource)
		return
	case standard(check["kind"], name):
	default:
		f.expression(o, check["apiVersion"], check["kind"], "status.conditions.exists(e, e.type == '"+name+"' && e.status == 'True')", "")
	}
	checks, _ := o.spec["healthChecks"].([]any)
	entry := map[string]any{}
	for k, v := range check {
		entry[k] = v
	}
	if o.spec["wait"] != true { // else it is about all objects
		o.spec["healthChecks"] = append(checks, entry)
	}
	f.made[s.Name] = o
	s.whole = true
	s.changed(s.Locate(), "", "step %s: it is a health check of the Kustomization %s: all that depends on that waits for it too", s.Name, o.name)
}

// brings finds the Kustomization that brings the object of a wait step, among those that it
// needs, and the object's health check.
func (f *fluxer) brings(s *step) (*fluxObject, map[string]string) {
	kind, name, named := strings.Cut(s.Wait.Resource, "/")
	if !named {
		return nil, nil
	}
	for _, need := range s.Needs {
		o := f.made[need.Step]
		if o == nil || o.folder == nil || need.On != "" && need.On != plan.NeedSuccess {
			continue
		}
		for _, object := range o.folder.objects {
			apiVersion, _ := object["apiVersion"].(string)
			is, _ := object["kind"].(string)
			metadata, _ := object["metadata"].(map[string]any)
			namespace, _ := metadata["namespace"].(string)
			if metadata["name"] != name || !isKind(kind, apiVersion, is) {
				continue
			}
			if into, _ := o.spec["targetNamespace"].(string); namespace == "" || into != "" {
				namespace = into
			}
			if s.Wait.Namespace != "" && namespace != "" && s.Wait.Namespace != namespace {
				continue
			}
			check := map[string]string{"apiVersion": apiVersion, "kind": is, "name": name}
			if namespace != "" {
				check["namespace"] = namespace
			}
			return o, check
		}
	}
	return nil, nil
}

// isKind reports whether TYPE of a wait step, such as deploy, deployments or
// deployments.apps, is the kind of an object.
func isKind(typed, apiVersion, kind string) bool {
	typed, of, grouped := strings.Cut(strings.ToLower(typed), ".")
	group, _, has := strings.Cut(apiVersion, "/")
	if !has {
		group = ""
	}
	kind = strings.ToLower(kind)
	if grouped && of != group && !strings.HasSuffix(of, "."+group) { // TYPE.GROUP or TYPE.VERSION.GROUP
		return false
	}
	return slices.Contains([]string{kind, kind + "s", kind + "es", strings.TrimSuffix(kind, "y") + "ies"}, typed) || short[typed] == kind
}

// short are kubectl's short names of kinds.
var short = map[string]string{
	"deploy": "deployment", "ds": "daemonset", "sts": "statefulset", "po": "pod", "svc": "service", "cm": "configmap",
	"pvc": "persistentvolumeclaim", "crd": "customresourcedefinition", "cj": "cronjob", "cert": "certificate",
}

// standard reports whether Flux takes an object of a kind for healthy when it has a condition.
func standard(kind, condition string) bool {
	known, is := map[string]string{
		"Deployment": "available", "Job": "complete", "CustomResourceDefinition": "established", "APIService": "available", "Pod": "ready",
	}[kind]
	if !is {
		known = "ready"
	}
	return strings.EqualFold(known, condition)
}

// expression adds a health check of all objects of a kind.
func (f *fluxer) expression(o *fluxObject, apiVersion, kind, current, failed string) {
	all, _ := o.spec["healthCheckExprs"].([]any)
	e := map[string]any{"apiVersion": apiVersion, "kind": kind, "current": current}
	if failed != "" {
		e["failed"] = failed
	}
	o.spec["healthCheckExprs"] = append(all, e)
}

// ofObject matches what expressions of plans read of an object, which those of Flux call
// by the field alone.
var ofObject = regexp.MustCompile(`\bobject\.(metadata|spec|status|data)\b`)

// ready carries over what the plan says of when objects are ready, for the kinds that a
// Kustomization has.
func (f *fluxer) ready(s *step, o *fluxObject) {
	for _, name := range slices.Sorted(maps.Keys(s.Ready)) {
		kind, group, _ := strings.Cut(name, ".")
		i := slices.IndexFunc(o.folder.objects, func(object map[string]any) bool {
			apiVersion, _ := object["apiVersion"].(string)
			return object["kind"] == kind && strings.HasPrefix(apiVersion, group+"/")
		})
		if i < 0 && o.folder.all {
			continue
		}
		r := s.Ready[name]
		current, failed := ofObject.ReplaceAllString(r.Ready, "$1"), ofObject.ReplaceAllString(r.Failed, "$1")
		if i < 0 || strings.Contains(current+failed, "object") {
			s.lost(f.inPlan("ready", name), "write it into spec.healthCheckExprs", "when a %s is ready is not said to Flux", name)
			continue
		}
		f.expression(o, o.folder.objects[i]["apiVersion"].(string), kind, current, failed)
		s.changed(f.inPlan("ready", name), "kplan's own functions are not there", "Flux evaluates the expression by its own rules")
	}
}
