// Package rights computes which rights a run of a plan needs on a cluster: for each
// request that its steps send, its lock and its records, as data and as RBAC roles.
//
// It asks no cluster, and does not know who runs the plan: steps/preflight asks the API
// server whether somebody has the rights. What a chart looks up while it is rendered, and
// what an earlier version of a chart had, it cannot know.
package rights

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/webhook"
)

// Rule is one right: a verb on the objects of a resource.
type Rule struct {
	Group, Resource, Verb string
	// URL is the path of a rule for what is no resource; Group and Resource are "" then.
	URL string
	// Namespace is where; "" is the whole cluster.
	Namespace string
	// Names are those of the objects, sorted; nil means all.
	Names []string
	// Step needs the right. "" is the run itself, for its lock and its records.
	Step string
	// For says in words what for: "to apply its objects".
	For string
	// Optional says that the step ends as well without the right: it sees or says less.
	Optional bool
	// Other says that another right may do as well, which nobody can ask for here: of roles
	// the verb escalate, of bindings the rights of the role.
	Other bool
}

// String says the right for people: patch deployments.apps "web" in namespace shop.
func (r Rule) String() string {
	text := r.Verb + " " + r.URL
	if r.URL == "" {
		text = r.Verb + " " + schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	}
	for i, name := range r.Names {
		if i == mostNames {
			text += fmt.Sprintf(" and %d more", len(r.Names)-mostNames)
			break
		}
		text += fmt.Sprintf(" %q", name)
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// mostNames is how many objects a text names.
const mostNames = 3

// Note is something about a step that a reader of its rights should know.
type Note struct {
	// Step is "" for the run itself.
	Step string
	Text string
	// Unknown says that rights of the step are missing from the rules.
	Unknown bool
}

// Step is a step with what is known of it before it runs.
type Step struct {
	plan.Step
	// Namespace is the default one of its cluster.
	Namespace string
	// Objects are those that it sends, or deletes; of a webhook step those of its canaries
	// and files. They have namespaces, also those of kinds without.
	Objects []*unstructured.Unstructured
	// Unread says why Objects are not known; "" when they are.
	Unread string
}

// Input is what a run does on one cluster.
type Input struct {
	// Plan is the plan's name, and State the namespace of its lock and records.
	Plan, State string
	Steps       []Step
	// Records says that the cluster keeps the records of the plan's runs.
	Records bool
	// Reads are the values that other steps and other clusters want of this one.
	Reads []plan.Input
	// Live are the webhooks that the cluster has, where a step means such ones.
	Live []webhook.Entry
	// Namespace is the default one of the cluster.
	Namespace string
	Kinds     Kinds
}

// Of computes the rights that a run needs on a cluster, sorted, and what there is to say
// of them. Each right comes once for each step and purpose.
func Of(in Input) ([]Rule, []Note) {
	c := &computer{Input: in}
	for _, s := range in.Steps {
		if s.Skip == "" {
			c.step(s)
		}
	}
	if slices.ContainsFunc(in.Steps, func(s Step) bool { return s.Skip == "" && Writes(s.Step) }) {
		c.lock()
		c.holds()
	}
	if in.Records {
		c.records()
	}
	c.values()
	return compact(watchable(c.rules)), c.notes
}

// Writes reports whether a step changes its cluster.
func Writes(s plan.Step) bool { return s.Helm != nil || s.Apply != nil || s.Delete != nil }

// computer gathers rules.
type computer struct {
	Input
	rules []Rule
	notes []Note
}

// need is what a purpose needs on a resource.
type need struct {
	step     string
	purpose  string
	optional bool
	other    bool // see Rule.Other
}

func (c *computer) note(step string, unknown bool, format string, args ...any) {
	c.notes = append(c.notes, Note{Step: step, Text: fmt.Sprintf(format, args...), Unknown: unknown})
}

// add adds verbs on objects of a resource in a namespace; without names on all.
func (c *computer) add(n need, r schema.GroupResource, namespace string, names []string, verbs ...string) {
	for _, verb := range verbs {
		c.rules = append(c.rules, Rule{
			Group: r.Group, Resource: r.Resource, Verb: verb, Namespace: namespace, Names: names,
			Step: n.step, For: n.purpose, Optional: n.optional, Other: n.other,
		})
	}
}

// step adds what one step needs.
func (c *computer) step(s Step) {
	if len(s.Deferred()) > 0 {
		c.note(s.Name, true, "it asks for %s: what it does is known when it starts", s.Deferred()[0])
		return
	}
	if s.Unread != "" {
		c.note(s.Name, true, "what it sends cannot be read: %s", s.Unread)
	}
	switch s.Kind() {
	case plan.KindHelm:
		c.helm(s)
	case plan.KindApply:
		c.apply(s)
	case plan.KindWait:
		c.wait(s)
	case plan.KindWebhook:
		c.webhook(s)
	case plan.KindDelete:
		c.deletion(s)
	case plan.KindInclude:
	}
	for _, name := range sortedKeys(s.Outputs) {
		c.output(s, name)
	}
}

// Resources that kplan itself reads or writes.
var (
	secrets        = schema.GroupResource{Resource: "secrets"}
	configMaps     = schema.GroupResource{Resource: "configmaps"}
	namespaces     = schema.GroupResource{Resource: "namespaces"}
	services       = schema.GroupResource{Resource: "services"}
	pods           = schema.GroupResource{Resource: "pods"}
	podLogs        = schema.GroupResource{Resource: "pods/log"}
	events         = schema.GroupResource{Resource: "events"}
	claims         = schema.GroupResource{Resource: "persistentvolumeclaims"}
	endpointSlices = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
	deployments    = schema.GroupResource{Group: "apps", Resource: "deployments"}
	statefulSets   = schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	leases         = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	definitions    = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	mutating       = schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}
	validating     = schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}
)

// lock adds what the plan's lock needs (ledger/place.go). Nothing else than the Lease
// has a name that is known before.
func (c *computer) lock() {
	n := need{purpose: "to keep the plan's lock", optional: true}
	c.add(n, leases, c.State, nil, "create")
	c.add(n, leases, c.State, []string{ledger.LockName(c.Plan)}, "get", "update")
	c.add(n, namespaces, "", nil, "create")
	c.add(n, namespaces, "", []string{"kube-system"}, "get") // whose UID tells clusters apart
}

// records adds what the records of the plan's runs need (ledger/archive.go). Their names
// are those of the runs.
func (c *computer) records() {
	n := need{purpose: "to record the run", optional: true}
	c.add(n, secrets, c.State, nil, "get", "list", "create", "update", "delete")
	c.add(n, namespaces, "", nil, "create")
}

// values adds the Secrets and ConfigMaps that give values.
func (c *computer) values() {
	for _, in := range c.Reads {
		r := configMaps
		if in.From == plan.FromSecret {
			r = secrets
		}
		c.add(need{purpose: "to read " + in.String()}, r, cmp.Or(in.Key.Namespace, c.Namespace), []string{in.Key.Name}, "get")
	}
}
