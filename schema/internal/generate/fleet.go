package main

import (
	"maps"
	"reflect"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
)

// fleetSchema is the schema of a fleet file.
func fleetSchema(from sources) (*node, error) {
	c, err := readComments(from.fleet)
	if err != nil {
		return nil, err
	}
	ofPlan, err := readComments(from.plan)
	if err != nil {
		return nil, err
	}
	for _, t := range []reflect.Type{reflect.TypeFor[plan.Metadata](), reflect.TypeFor[plan.Cluster](), reflect.TypeFor[plan.KeyRef]()} {
		c.take(ofPlan, t)
	}
	maps.Copy(c.fields, inFleet)
	c.types["Metadata"] = "Metadata names the fleet."
	g := generator{comments: c, plain: noExpressions, ofTypes: typesOfFleet, ofFields: fieldsOfFleet, used: map[string]bool{}}
	root, err := g.object(reflect.TypeFor[fleet.Fleet]())
	if err != nil {
		return nil, err
	}
	root.Title = "kplan fleet"
	root.Description = "A plan, the clusters that it runs on, and in which order."
	return g.finish(root)
}

// inFleet are the comments of fields that mean something else in a fleet than in a plan.
var inFleet = map[string]string{
	"Cluster.Kubeconfig": "Kubeconfig is the path of a kubeconfig file, relative to the fleet file.",
	"KeyRef.Cluster":     "Cluster is one of the fleet's clusters (default: that of the command line).",
}

// take takes the comments of a type of another package.
func (c *comments) take(from *comments, t reflect.Type) {
	c.types[t.Name()] = from.types[t.Name()]
	for f := range t.Fields() {
		name := t.Name() + "." + f.Name
		c.fields[name] = from.fields[name]
	}
}

// limit is a number of clusters, or a share of them.
func limit() *node {
	count := &node{Type: "integer"}
	atLeast(0)(count)
	share := &node{Type: "string", Pattern: shares, PatternError: "write a whole number, or a share such as 5%"}
	return &node{AnyOf: []*node{count, share}, Examples: []any{0, 3, "5%"}}
}

const shares = `^([0-9]+(\.[0-9]+)?|100)%$`

// typesOfFleet say what holds for a mapping as a whole.
var typesOfFleet = map[string]func(*node){
	"Inventory": exactlyOne("capi", "k0rdent", "sveltos", "argocd", "contexts", "list"),
	"Engine":    notBoth("local", "kubernetes"),
	"Cluster":   notBoth("kubeconfig", "kubeconfig_secret"),
	"Listed":    notBoth("kubeconfig", "kubeconfig_secret"),
}

// fieldsOfFleet say what the type of a field does not.
var fieldsOfFleet = map[string]func(*node){
	"Fleet.apiVersion": constant(plan.APIVersion),
	"Fleet.kind":       constant(fleet.Kind),
	"Fleet.inventory":  func(n *node) { n.MinItems = 1 },
	"Fleet.waves":      func(n *node) { n.MinItems = 1 },
	"Fleet.vars":       both(names(`^[A-Za-z_][A-Za-z0-9_]*$`, "use letters, digits and _ only, and no digit first"), examples(map[string]any{"region": "${{ cluster.labels.region }}"})),
	"Metadata.name":    label,
	"PlanRef.file":     both(nonEmpty, examples("plan.yaml")),

	"Cluster.context":    nonEmpty,
	"Cluster.kubeconfig": nonEmpty,
	"Cluster.namespace":  label,
	"KeyRef.cluster":     nonEmpty,
	"KeyRef.namespace":   label,
	"KeyRef.name":        nonEmpty,

	"ObjectSource.cluster":     nonEmpty,
	"ObjectSource.namespace":   label,
	"ObjectSource.selector":    both(nonEmpty, examples("tier=edge,region in (eu, us)")),
	"ContextSource.kubeconfig": nonEmpty,
	"ContextSource.names":      both(func(n *node) { n.MinItems = 1 }, examples([]string{"edge-*"})),
	"Inventory.list":           func(n *node) { n.MinItems = 1 },
	"Inventory.select":         both(nonEmpty, examples(`cluster.labels.region == "eu"`)),
	"Listed.name":              label,
	"Listed.context":           nonEmpty,
	"Listed.kubeconfig":        nonEmpty,
	"Listed.namespace":         label,

	"Wave.name":     label,
	"Wave.select":   both(nonEmpty, examples(`cluster.labels.ring == "0"`)),
	"Wave.parallel": between(1, 10_000),

	"KubernetesEngine.cluster":                nonEmpty,
	"KubernetesEngine.namespace":              label,
	"KubernetesEngine.image":                  nonEmpty,
	"KubernetesEngine.service_account":        nonEmpty,
	"KubernetesEngine.driver_service_account": nonEmpty,
	"KubernetesEngine.image_pull_secrets":     func(n *node) { nonEmpty(n.Items) },
	"KubernetesEngine.tolerations": func(n *node) {
		n.Items.AdditionalProperties = false
		for _, name := range []string{"key", "operator", "value", "effect"} {
			n.Items.Properties = append(n.Items.Properties, property{name, &node{Type: "string"}})
		}
		n.Items.Properties = append(n.Items.Properties, property{"tolerationSeconds", &node{Type: "integer"}})
	},
	"KubernetesEngine.bundle": func(n *node) {
		n.Pattern, n.PatternError = `^oci://[^/ ]+/[^ @]+$`, "write a repository as oci://registry.example.com/fleets"
	},
}

// fleetPage is the page of all fields of a fleet.
func fleetPage(from sources) ([]byte, error) {
	root, err := fleetSchema(from)
	if err != nil {
		return nil, err
	}
	p := newPage(root, true)
	p.out.WriteString(`# Fields of a fleet

This page is made from the types that kplan reads a fleet file into. It has every field. [kplan fleet validate](cli/kplan_fleet_validate.md) checks a file.

Only the values below ` + "`vars`" + ` take expressions: ` + "`${{ cluster.labels.region }}`" + `. What ` + "`select`" + ` takes is an expression itself, without ` + "`${{` and `}}`" + `.
Expressions see one cluster: its ` + "`name`, `namespace`, `labels` and `annotations`" + `, of which all values are text. They have the same [functions](functions.md) as those of a plan.
Durations are a number with its unit: ` + "`90s`, `10m`, `1h30m`" + `.
`)
	p.section("Fleet", "the file itself", root)
	p.definitions()
	return []byte(p.out.String()), nil
}

// fleetEventSchema is the schema of an event of a fleet's run.
func fleetEventSchema(from sources) (*node, error) {
	c, err := readComments(from.fleet)
	if err != nil {
		return nil, err
	}
	return schemaOfEvents(c, reflect.TypeFor[fleet.Event](), "kplan fleet event", fieldsOfFleetEvents, map[string]func(*node){
		"Event.seq": atLeast(1), "Event.attempt": atLeast(1), "Event.round": atLeast(1),
	})
}

// fieldsOfFleetEvents are the fields that events of a type have in any case, beside those of
// all events.
var fieldsOfFleetEvents = map[string][]string{
	"fleet":   {"version", "fleet", "plan", "run", "engine", "waves", "clusters"},
	"wave":    {"wave", "wave_state"},
	"cluster": {"cluster"},
	"control": {"control"},
	"stop":    {"reason"},
	"resume":  nil,
	"message": nil,
	"done":    {"run_state"},
}

// fleetEventPage is the page of all types and fields of events of a fleet's run.
func fleetEventPage(from sources) ([]byte, error) {
	root, err := fleetEventSchema(from)
	if err != nil {
		return nil, err
	}
	return pageOfEvents(root, fieldsOfFleetEvents, `# Types and fields of a fleet's events

This page is made from the types that kplan writes the events of a fleet's run from. What happens within one cluster are [events of a run](event-fields.md), which are kept apart.
`), nil
}
