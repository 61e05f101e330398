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

// secretWait is a step that waits for a Certificate or a Secret.
type secretWait struct {
	step, kind string
	// object is without a name for all objects that the selector selects.
	object   name
	selector string
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
	waits := p.secretWaits()
	for _, n := range order {
		shown := brought[n]
		for _, w := range waits {
			if w.shows(n, filled[n].object) {
				shown = append(shown, w.step)
			}
		}
		p.checkUsages(n, filled[n], usages[n], shown)
	}
}

// checkUsages looks for those that come after none of the steps that show that
// the Secret is there.
func (p *pass) checkUsages(n name, certificate sent, all []usage, shown []string) {
	for _, u := range all {
		safe := func(by string) bool { return u.step.Name == by || p.graph.Follows(u.step.Name, by) }
		if conditional(u.step) || conditional(certificate.step) || slices.ContainsFunc(shown, safe) {
			continue
		}
		later := p.graph.Follows(certificate.step.Name, u.step.Name) // the Certificate is
		w := missingWait{usage: u, certificate: certificate, separable: u.step != certificate.step && !later}
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
		f, ok := p.add(finding.Warning, u.step, u.object.location(u.step, u.at...), w.hint(p.linter, later), "%s %s the Secret %q, which the Certificate %q of %s fills, and nothing waits for it%s",
			u.object.is(), does, n.name, certificate.object.name(), whose(u.step, certificate.step), idle)
		if ok {
			p.missing[f.String()] = w
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

// secretWaits collects the plan's wait steps for Certificates and Secrets.
func (l *linter) secretWaits() []secretWait {
	var all []secretWait
	l.each(func(s *plan.Step) {
		if s.Wait == nil {
			return
		}
		kind := kindOf(s.Wait.Resource)
		if kind == nil || kind.names[0] != "Certificate" && kind.names[0] != "Secret" || !showsSecret(kind.names[0], s.Wait) {
			return
		}
		_, object, _ := strings.Cut(s.Wait.Resource, "/")
		all = append(all, secretWait{s.Name, kind.names[0], name{l.cluster(s), l.namespace(s, s.Wait.Namespace), object}, s.Wait.Selector})
	})
	return all
}

// showsSecret reports whether the end of a wait shows that the Secret is there.
func showsSecret(kind string, w *plan.Wait) bool {
	c, err := w.Condition()
	switch {
	case err != nil, c.Type == plan.ConditionDelete:
		return false
	case kind == "Secret", c.Type == plan.ConditionJSONPath:
		return true
	}
	return c.Type == plan.ConditionReady || c.Type == plan.ConditionStatus && strings.EqualFold(c.Name, "Ready") && strings.EqualFold(c.Value, "true")
}

// shows reports whether the step waits for a Secret, or for the Certificate that fills
// it.
func (w secretWait) shows(secret name, certificate Object) bool {
	want := secret
	if w.kind == "Certificate" {
		want.name = certificate.name()
	}
	if w.object.name == "" {
		want.name = ""
		return w.object == want && (w.kind == "Secret" || selects(w.selector, certificate))
	}
	return w.object == want
}

// selects reports whether an object has the labels a=b,c=d. What is no such list is
// taken to select it.
func selects(selector string, o Object) bool {
	for part := range strings.SplitSeq(selector, ",") {
		key, value, ok := strings.Cut(strings.Replace(part, "==", "=", 1), "=")
		if ok && !strings.ContainsAny(part, "!() ") && field(o.Fields, "metadata", "labels", key) != value {
			return false
		}
	}
	return true
}

// podSpecs leads to the pods' spec of the kinds that start pods at once.
var podSpecs = map[string][]any{
	"Pod": {"spec"}, "Deployment": {"spec", "template", "spec"}, "StatefulSet": {"spec", "template", "spec"}, "DaemonSet": {"spec", "template", "spec"},
	"ReplicaSet": {"spec", "template", "spec"}, "Job": {"spec", "template", "spec"},
	"CronJob": {"spec", "jobTemplate", "spec", "template", "spec"},
}

// podSpec returns the path to the spec of an object's pods; nil when it has none.
func podSpec(o Object) []any {
	if !slices.Contains([]string{"", "apps", "batch"}, o.group()) {
		return nil
	}
	return podSpecs[o.kind()]
}

// usagesOf returns the Secrets without which an object's pods do not start, each once.
func usagesOf(s sent) []usage {
	at := podSpec(s.object)
	if at == nil {
		return nil
	}
	spec := field(s.object.Fields, at...)
	var all []usage
	add := func(volume bool, key string, path ...any) {
		ref := field(spec, path...)
		secret := text(ref, key)
		if secret == "" || field(ref, "optional") == true || slices.ContainsFunc(all, func(u usage) bool { return u.secret == secret }) {
			return
		}
		all = append(all, usage{sent: s, secret: secret, volume: volume, at: append(slices.Concat(at, path), key)})
	}
	for i, volume := range list(spec, "volumes") {
		add(true, "secretName", "volumes", i, "secret")
		for j := range list(volume, "projected", "sources") {
			add(true, "name", "volumes", i, "projected", "sources", j, "secret")
		}
	}
	for _, containers := range []string{"initContainers", "containers"} {
		for i, container := range list(spec, containers) {
			for j := range list(container, "envFrom") {
				add(false, "name", containers, i, "envFrom", j, "secretRef")
			}
			for j := range list(container, "env") {
				add(false, "name", containers, i, "env", j, "valueFrom", "secretKeyRef")
			}
		}
	}
	return all
}

// waitingContainer names an init container that waits for the Secret or its
// Certificate, as far as its command tells; "" when there is none.
func waitingContainer(o Object, names ...string) string {
	for _, container := range list(o.Fields, slices.Concat(podSpec(o), []any{"initContainers"})...) {
		command := fmt.Sprint(field(container, "command"), field(container, "args"))
		waits := strings.Contains(command, "until ") || strings.Contains(command, "while ") || strings.Contains(command, "wait")
		if waits && slices.ContainsFunc(names, func(n string) bool { return strings.Contains(command, n) }) {
			return text(container, "name")
		}
	}
	return ""
}
