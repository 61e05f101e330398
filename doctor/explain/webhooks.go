package explain

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/webhook"
)

// explainFaults explains a piece that is about webhooks, nil for any other. Of several
// errors in one piece each is explained.
func explainFaults(p string, context map[string]string) []Explanation {
	var all []Explanation
	for _, f := range webhook.Faults(errors.New(p)) {
		if f.Class == webhook.None {
			return nil
		}
		names := namesOf(f, context)
		e := explainFault(f, names)
		e.Fault = &f
		all = append(all, e)
	}
	return all
}

// namesOf are the names that a fault tells.
func namesOf(f webhook.Fault, context map[string]string) map[string]string {
	names := maps.Clone(context)
	webhookName := f.Webhook
	if f.Kind == webhook.Conversion || f.Kind == webhook.Definition {
		gv, kind, ok := strings.Cut(f.Webhook, ", Kind=")
		webhookName = ""
		if ok {
			put(names, "kind", kind)
			put(names, "version", gv)
			group, _, _ := strings.Cut(gv, "/")
			put(names, "group", group)
			put(names, "crd", kind+"."+group)
		} else {
			put(names, "resource", f.Webhook)
			put(names, "crd", f.Webhook)
		}
	}
	put(names, "webhook", webhookName)
	put(names, "service", f.Service)
	put(names, "namespace", f.Namespace)
	return names
}

func put(names map[string]string, name, value string) {
	if value != "" && safe(value) {
		names[name] = value
	}
}

func explainFault(f webhook.Fault, names map[string]string) Explanation {
	switch {
	case f.Class == webhook.Denied:
		return denial.explain(names, quote(strings.TrimSuffix(f.Cause, `") has prevented the request from succeeding`)))
	case f.Kind == webhook.Server && f.MaybeApplied:
		return serverLate.explain(names, "")
	case f.Kind == webhook.Server:
		return serverStarts.explain(names, "")
	case f.Kind == webhook.Definition:
		return definition(names)
	}
	c := callOf(f)
	r := rule{
		id: "webhook-" + c.id, class: Class(f.Class), causes: c.causes, next: c.next,
		what:  "webhook[ {webhook}] could not be called[ at Service {namespace}/{service}]; nothing was written",
		about: []webhook.Object{{Kind: "Webhook", Name: "{webhook}"}, {Kind: "Service", Namespace: "{namespace}", Name: "{service}"}},
	}
	if f.Kind == webhook.Conversion {
		r.id = "conversion-" + c.id
		r.what = "objects of kind {kind} ({version}) could not be converted: the CRD's webhook could not be called[ at Service {namespace}/{service}]; reads and deletions fail too"
		r.about = []webhook.Object{{Kind: "CustomResourceDefinition", Name: "{crd}"}, r.about[1]}
		r.next = slices.Clone(r.next)
		for i, command := range r.next { // a conversion webhook has its CRD's name, which the text does not tell
			r.next[i] = strings.ReplaceAll(command, "kplan webhooks {webhook}", "kplan webhooks --failing")
		}
	}
	e := r.explain(names, quote(f.Cause))
	e.Words = f.Explain()
	return e
}

// callOf is what a failed call means. What a webhook answered is its own text, so that it
// counts from its start only, as it does for webhook's own tables.
func callOf(f webhook.Fault) call {
	is := strings.Contains
	if f.URL == "" {
		is = strings.HasPrefix
	}
	for _, c := range calls {
		if c.answered != (f.URL == "") {
			continue
		}
		if slices.ContainsFunc(c.texts, func(text string) bool { return is(f.Cause, text) }) {
			return c
		}
	}
	return otherCall
}

var (
	denial = rule{
		id: "webhook-denied", class: Denied,
		what:  "webhook {webhook} answered, and its answer is no",
		about: []webhook.Object{{Kind: "Webhook", Name: "{webhook}"}},
		causes: []string{
			"the object breaks a rule of the webhook: the reason says which",
			"what the object refers to does not exist or is not ready yet, and the webhook wants it to be",
		},
		next: []string{"kplan webhooks {webhook} -o wide", "kubectl apply --dry-run=server -f FILE"},
	}
	noDryRun = rule{ // k8s.io/apiserver pkg/admission/plugin/webhook/errors
		id: "webhook-no-dry-run", class: Misconfigured,
		has:     []string{"does not support dry run"},
		pattern: regexp.MustCompile(`admission webhook "(?P<webhook>[^"]+)" does not support dry run`),
		what:    "webhook {webhook} does not support dry runs, so a dry run of what it guards is refused; it was not called",
		about:   []webhook.Object{{Kind: "Webhook", Name: "{webhook}"}},
		causes: []string{
			"its configuration has no sideEffects of None or NoneOnDryRun: it is of an old version, or has side effects",
		},
		next: []string{"kplan webhooks {webhook} -o wide"},
	}
	serverStarts = rule{
		id: "server-starting", class: Race,
		what:   "the API server starts or stops, and refused the request; nothing was done",
		causes: []string{"the control plane is being restarted or updated", "the cluster was made a moment ago"},
		next:   []string{"kubectl get --raw '/readyz?verbose'"},
	}
	serverLate = rule{
		id: "server-timeout", class: Overloaded,
		what: "the API server did not finish the request in its time; it may have been done",
		causes: []string{
			"a webhook that is called for it is slow, or several are",
			"the API server or its etcd has more to do than it can",
		},
		next: []string{"kplan webhooks --failing", "kubectl get --raw '/readyz?verbose'"},
	}
)
