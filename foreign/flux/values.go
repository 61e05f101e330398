package flux

import (
	"cmp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// values takes valuesFrom, in their order, and values over them.
func (r *release) values() {
	spec := r.v.Get("spec")
	var under, targets *yaml.Node
	files := []string{}
	if n := r.step.Fields.Value("values_files"); n != nil {
		for _, item := range n.Content {
			files = append(files, item.Value)
		}
	}
	alone := !spec.Get("values").Given() && len(spec.Get("valuesFrom").Items()) == 1
	for _, from := range spec.Get("valuesFrom").Items() {
		kind, name := from.Get("kind").Text(), from.Get("name").Text()
		key := cmp.Or(from.Get("valuesKey").Text(), "values.yaml")
		if name == "" {
			from.Lost("fill it in, and import it again", "the %s with values has no name", cmp.Or(kind, "object"))
			continue
		}
		if from.Get("literal").Given() {
			from.Get("literal").Take() // as the variable is: text
		}
		switch target := from.Get("targetPath").Text(); {
		case target != "":
			targets = r.target(from, targets, target, kind, name, key)
		case r.tree.generated[name+"/"+key] != "":
			r.tree.used[name] = true
			file := r.tree.generated[name+"/"+key]
			if r.group.substitutes && r.hasDollar(file) {
				from.Lost("write ${{ vars.NAME }} into the file and give the step evaluate: true", "${NAME} in the file %s is used as it is", r.in.FromPlan(file))
			}
			files = append(files, r.in.FromPlan(file))
		case r.configMap(kind, name, r.objectNamespace) != nil:
			under = foreign.Merge(under, r.inline(r.configMap(kind, name, r.objectNamespace), from, key))
		case alone:
			r.step.Fields.Set("values", foreign.Expr("vars."+r.late(kind, name, key, "map")))
		default:
			from.Lost("write them into a file: kubectl get "+strings.ToLower(kind)+" "+name+" -o yaml, and name it in values_files", "values of the %s %s are not known here, and a plan cannot merge them", kind, name)
		}
		if o := from.Get("optional"); o.Or(false) {
			o.Changed("give the variable a default, if there is one", "the %s %s need not be there for Flux", kind, name)
		}
	}
	r.step.Fields.Set("values_files", files)
	values := r.plan.Values(r.name, spec.Get("values"))
	if values = foreign.Merge(foreign.Merge(under, values), targets); values != nil && values.Kind == yaml.MappingNode {
		r.step.Fields.Set("values", r.substitute(values))
	}
}

// substitute is that of the Kustomization, unless the HelmRelease wants none.
func (r *release) substitute(n *yaml.Node) *yaml.Node {
	if r.v.Get("metadata", "annotations", disabled).Given() || r.v.Get("metadata", "labels", disabled).Given() {
		return n
	}
	return r.group.substitute(n)
}

// configMap is a ConfigMap of the files; nil when there is none. A Secret is never copied.
func (im *importer) configMap(kind, name, namespace string) *object.Object {
	if kind != "ConfigMap" {
		return nil
	}
	for _, o := range im.tree.objects {
		if !im.tree.replaced[o] && o.Is("", "ConfigMap") && o.Name == name && (im.tree.namespace(o) == namespace || im.tree.namespace(o) == "") {
			return o
		}
	}
	return nil
}

// inline are the values that a ConfigMap has as text.
func (r *release) inline(o *object.Object, from *foreign.Value, key string) *yaml.Node {
	values, ok := foreign.Inline(o.Get("data").Get(key))
	if !ok || values == nil {
		from.Lost("write them into a file, and name it in values_files", "%s of the ConfigMap %s is no mapping of values", key, o.Name)
		return nil
	}
	return r.plan.Conceal(r.name, values, from)
}

// target puts a variable at the path that a value of a Secret or ConfigMap goes to.
func (r *release) target(from *foreign.Value, under *yaml.Node, target, kind, name, key string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(foreign.Expr("vars." + r.late(kind, name, key, "any")))
	parts := strings.Split(strings.ReplaceAll(target, `\.`, "\x00"), ".")
	if strings.ContainsAny(target, "[]{}\n") || target == "" || strings.Contains("."+target+".", "..") {
		from.Lost("write it into values: ${{ vars.NAME }} at its place", "the path %s is not understood, and the value of the %s %s not used", target, kind, name)
		return under
	}
	for _, part := range slices.Backward(parts) {
		var m foreign.Fields
		m.Keep(strings.ReplaceAll(part, "\x00", "."), n)
		n = m.Node()
	}
	return foreign.Merge(under, n)
}

// late declares a variable with a value of the cluster, which is read when the step
// starts.
func (r *release) late(kind, name, key, typ string) string {
	id := cmp.Or(foreign.Identifier(name+"_"+strings.TrimSuffix(key, ".yaml")), "value")
	f := r.plan.Var(id, key+" of the "+kind+" "+name)
	field := "config_map"
	if kind == "Secret" {
		field = "secret"
	}
	if f.Value(field) == nil {
		var ref foreign.Fields
		if r.step.Cluster != "" { // the object is where Flux is
			ref.Set("cluster", "management")
		}
		ref.Set("namespace", cmp.Or(r.objectNamespace, "default"))
		ref.Set("name", name)
		ref.Set("key", key)
		f.Set("type", typ)
		f.Set(field, &ref)
	}
	return id
}
