package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
)

// name is that of an object of a kind that is known, in one cluster.
type name struct{ cluster, namespace, name string }

// usage is where pods use a Secret.
type usage struct {
	sent
	secret string
	// at leads to the Secret's name in the object.
	at []any
	// volume says that the Secret is mounted, volumes[i] in at. Else it is read when
	// a container starts.
	volume bool
}

// missingWait is what mends a usage: a step that waits for the Certificate.
type missingWait struct {
	usage
	certificate sent
	// separable says that a step in between is possible.
	separable bool
}

// waiters are the wait steps of a plan, by what they wait for.
type waiters struct {
	named map[string]map[name][]string // by kind: steps' names
	// selected are waits for all objects with a label, by kind.
	selected map[string][]*plan.Step
}

// checkSecrets looks for pods that use the Secret of a Certificate before it is there.
func checkSecrets(p *pass) {
	filled := map[name]sent{} // the Certificate that fills a Secret
	var order []name
	brought := map[name][]string{} // the steps that bring a Secret itself
	p.each(func(s *plan.Step) {
		for _, o := range p.Objects[s.Name] {
			switch {
			case o.kind() == "Certificate" && o.group() == "cert-manager.io":
				n := name{p.cluster(s), p.namespace(s, o.namespace()), text(o.Fields, "spec", "secretName")}
				if _, known := filled[n]; !known && n.name != "" {
					filled[n], order = sent{s, o}, append(order, n)
				}
			case o.kind() == "Secret" && o.group() == "":
				n := name{p.cluster(s), p.namespace(s, o.namespace()), o.name()}
				brought[n] = append(brought[n], s.Name)
			}
		}
	})
	if len(filled) == 0 {
		return
	}
	usages := map[name][]usage{}
	p.each(func(s *plan.Step) {
		for _, o := range p.Objects[s.Name] {
			for _, u := range usagesOf(sent{s, o}) {
				n := name{p.cluster(s), p.namespace(s, o.namespace()), u.secret}
				if _, ok := filled[n]; ok {
					usages[n] = append(usages[n], u)
				}
			}
		}
	})
	w := p.waiters()
	for _, n := range order {
		p.checkUsages(n, filled[n], usages[n], append(w.of(p.linter, n, filled[n]), brought[n]...))
	}
}

// checkUsages looks for those that come after none of the steps that show that
// the Secret is there.
func (p *pass) checkUsages(n name, certificate sent, all []usage, shown []string) {
	safe := make([]bool, len(all))
	for _, by := range shown {
		for i, u := range all {
			safe[i] = safe[i] || u.step.Name == by || p.order.isAfter(u.step.Name, by)
		}
	}
	later := make([]bool, len(all)) // the Certificate is
	for i, u := range all {
		later[i] = !safe[i] && p.order.isAfter(certificate.step.Name, u.step.Name)
	}
	for i, u := range all {
		if safe[i] || conditional(u.step) || conditional(certificate.step) {
			continue
		}
		w := missingWait{usage: u, certificate: certificate, separable: u.step != certificate.step && !later[i]}
		does, idle := "reads", ""
		if u.volume {
			does = "mounts"
		}
		if c := waitingContainer(u.object, n.name, certificate.object.name()); c != "" {
			if !u.volume {
				continue
			}
			idle = fmt.Sprintf(" (the init container %q cannot: volumes are mounted before it starts)", c)
		}
		f, ok := p.add(finding.Warning, u.step, u.object.location(u.step, u.at...), w.hint(p.linter, later[i]), "%s %s the Secret %q, which the Certificate %q of %s fills, and nothing waits for it%s",
			u.object.is(), does, n.name, certificate.object.name(), whose(u.step, certificate.step), idle)
		if ok {
			p.missing[f] = w
		}
	}
}

func whose(s, of *plan.Step) string {
	if s == of {
		return "the same step"
	}
	return fmt.Sprintf("the step %q", of.Name)
}

// hint says how the wait comes into the plan.
func (w missingWait) hint(l *linter, later bool) string {
	switch {
	case later:
		return "let the step with the Certificate come first"
	case w.separable:
		return fmt.Sprintf("let %s need a step {wait: {resource: %s, namespace: %s, for: condition=Ready}} that needs %s; kplan lint --fix adds it",
			w.step.Name, w.resource(), l.namespace(w.certificate.step, w.certificate.object.namespace()), w.certificate.step.Name)
	case w.object.Text == nil:
		return "the pods start minutes late: give the step time, or let the chart take a Secret that a Certificate in an earlier step fills"
	}
	return "put the Certificate into a step of its own and wait for it, or see kplan lint --fix=init-container"
}

// resource names the Certificate as wait steps do.
func (w missingWait) resource() string { return "certificate/" + w.certificate.object.name() }

// waiters collects the plan's wait steps for Certificates and Secrets.
func (l *linter) waiters() waiters {
	w := waiters{named: map[string]map[name][]string{"Certificate": {}, "Secret": {}}, selected: map[string][]*plan.Step{}}
	l.each(func(s *plan.Step) {
		if s.Wait == nil {
			return
		}
		kind := kindOf(s.Wait.Resource)
		if kind == nil || w.named[kind.names[0]] == nil || !shows(kind.names[0], s.Wait) {
			return
		}
		_, object, isNamed := strings.Cut(s.Wait.Resource, "/")
		if !isNamed {
			w.selected[kind.names[0]] = append(w.selected[kind.names[0]], s)
			return
		}
		n := name{l.cluster(s), l.namespace(s, s.Wait.Namespace), object}
		w.named[kind.names[0]][n] = append(w.named[kind.names[0]][n], s.Name)
	})
	return w
}

// shows reports whether the end of a wait shows that the Secret is there.
func shows(kind string, w *plan.Wait) bool {
	c, err := w.Condition()
	switch {
	case err != nil, c.Type == plan.ConditionDelete:
		return false
	case kind == "Secret", c.Type == plan.ConditionJSONPath:
		return true
	}
	return c.Type == plan.ConditionStatus && strings.EqualFold(c.Name, "Ready") && strings.EqualFold(c.Value, "true")
}

// of returns the steps that wait for a Secret or its Certificate.
func (w waiters) of(l *linter, secret name, certificate sent) []string {
	cert := secret
	cert.name = certificate.object.name()
	steps := append(slices.Clone(w.named["Secret"][secret]), w.named["Certificate"][cert]...)
	for _, kind := range []string{"Secret", "Certificate"} {
		for _, s := range w.selected[kind] {
			if l.cluster(s) == secret.cluster && l.namespace(s, s.Wait.Namespace) == secret.namespace && (kind == "Secret" || selects(s.Wait.Selector, certificate.object)) {
				steps = append(steps, s.Name)
			}
		}
	}
	return steps
}

// selects reports whether an object has the labels a=b,c=d. What is no such list is
// taken to select it.
func selects(selector string, o Object) bool {
	labels, _ := field(o.Fields, "metadata", "labels").(map[string]any)
	for part := range strings.SplitSeq(selector, ",") {
		key, value, ok := strings.Cut(strings.Replace(part, "==", "=", 1), "=")
		if ok && !strings.ContainsAny(part, "!() ") && labels[key] != value {
			return false
		}
	}
	return true
}

// podSpecs leads to the pods' spec of the kinds that start pods at once.
var podSpecs = map[string][]string{
	"Pod": {"spec"}, "Deployment": {"spec", "template", "spec"}, "StatefulSet": {"spec", "template", "spec"}, "DaemonSet": {"spec", "template", "spec"},
	"ReplicaSet": {"spec", "template", "spec"}, "Job": {"spec", "template", "spec"},
	"CronJob": {"spec", "jobTemplate", "spec", "template", "spec"},
}

// podSpec returns the spec of an object's pods, and the path to it.
func podSpec(o Object) (spec map[string]any, at []any) {
	fields, ok := podSpecs[o.kind()]
	if !ok || !slices.Contains([]string{"", "apps", "batch"}, o.group()) {
		return nil, nil
	}
	for _, f := range fields {
		at = append(at, f)
	}
	spec, _ = field(o.Fields, fields...).(map[string]any)
	return spec, at
}

// usagesOf returns the Secrets without which an object's pods do not start, each once.
func usagesOf(s sent) []usage {
	spec, at := podSpec(s.object)
	if spec == nil {
		return nil
	}
	var all []usage
	add := func(volume bool, ref map[string]any, key string, more ...any) {
		secret := text(ref, key)
		if secret == "" || ref["optional"] == true || slices.ContainsFunc(all, func(u usage) bool { return u.secret == secret }) {
			return
		}
		all = append(all, usage{sent: s, secret: secret, volume: volume, at: append(append(slices.Clone(at), more...), key)})
	}
	for i, v := range list(spec, "volumes") {
		volume, _ := v.(map[string]any)
		secret, _ := volume["secret"].(map[string]any)
		add(true, secret, "secretName", "volumes", i, "secret")
		for j, p := range list(volume, "projected", "sources") {
			source, _ := p.(map[string]any)
			secret, _ := source["secret"].(map[string]any)
			add(true, secret, "name", "volumes", i, "projected", "sources", j, "secret")
		}
	}
	for _, containers := range []string{"initContainers", "containers"} {
		for i, c := range list(spec, containers) {
			container, _ := c.(map[string]any)
			for j, e := range list(container, "envFrom") {
				from, _ := e.(map[string]any)
				ref, _ := from["secretRef"].(map[string]any)
				add(false, ref, "name", containers, i, "envFrom", j, "secretRef")
			}
			for j, e := range list(container, "env") {
				env, _ := e.(map[string]any)
				ref, _ := field(env, "valueFrom", "secretKeyRef").(map[string]any)
				add(false, ref, "name", containers, i, "env", j, "valueFrom", "secretKeyRef")
			}
		}
	}
	return all
}

// waitingContainer names an init container that waits for the Secret or its
// Certificate, as far as its command tells; "" when there is none.
func waitingContainer(o Object, names ...string) string {
	spec, _ := podSpec(o)
	for _, c := range list(spec, "initContainers") {
		container, _ := c.(map[string]any)
		command := fmt.Sprint(container["command"], container["args"])
		waits := strings.Contains(command, "until ") || strings.Contains(command, "while ") || strings.Contains(command, "wait")
		if waits && slices.ContainsFunc(names, func(n string) bool { return strings.Contains(command, n) }) {
			return text(container, "name")
		}
	}
	return ""
}
