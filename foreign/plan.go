package foreign

import (
	"cmp"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan"
)

// FillIn stands in a plan where something must be given that nobody knows. Kplan
// validate finds it: there is no file of that name.
const FillIn = "./FILL-IN"

// Plan is a plan that is being made. Its zero value is an empty one.
type Plan struct {
	Name, Description string
	// Comments stand above all, a line each.
	Comments []string
	// Vars, Clusters, Repositories and Defaults are the plan's, by name.
	Vars, Clusters, Repositories, Defaults Fields
	// Steps are written in this order. Add adds one.
	Steps []*Step
	used  map[string]bool
}

// Step is a step that is being made.
type Step struct {
	// Name is unique in the plan once the step was added.
	Name string
	// Comments stand above the step, a line each.
	Comments []string
	// Needs are the steps that come before, in this order.
	Needs []Need
	When  string
	// Cluster is one of the plan's clusters.
	Cluster string
	Tags    []string
	Timeout time.Duration
	// Retry are the fields of the step's retry.
	Retry Fields
	// Kind is the kind of the step, and Fields are those of that kind.
	Kind   plan.Kind
	Fields Fields
}

// Need is a step that comes before another one, and why, where that is not plain.
type Need struct {
	Step *Step
	Why  string
}

// Need adds a step that comes before this one. It may be nil, and is needed once.
func (s *Step) Need(other *Step, why string) {
	if other == nil || other == s || slices.ContainsFunc(s.Needs, func(n Need) bool { return n.Step == other }) {
		return
	}
	s.Needs = append(s.Needs, Need{other, why})
}

// Add adds a step with the first name that is free of names, or else a number more.
func (p *Plan) Add(s *Step, names ...string) *Step {
	var labels []string
	for _, n := range names {
		if l := Label(n); l != "" && !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	if len(labels) == 0 {
		labels = []string{"step"}
	}
	i := slices.IndexFunc(labels, func(l string) bool { return !p.used[l] })
	if i >= 0 {
		s.Name = labels[i]
	}
	for n := 2; i < 0; n++ {
		suffix := "-" + strconv.Itoa(n)
		if l := cut(labels[0], maxLabel-len(suffix)) + suffix; !p.used[l] {
			s.Name = l
			break
		}
	}
	if p.used == nil {
		p.used = map[string]bool{}
	}
	p.used[s.Name] = true
	p.Steps = append(p.Steps, s)
	return s
}

// Helm adds a step of a release. Its namespace may be "".
func (p *Plan) Helm(release, namespace string) *Step {
	s := p.Add(&Step{Kind: plan.KindHelm}, release, namespace+"-"+release)
	if s.Name != release {
		s.Fields.Set("release", release)
	}
	return s
}

// maxLabel is how long the name of a step may be.
const maxLabel = 63

// Label makes a name that a plan, a step or a cluster can have; "" when nothing is left.
func Label(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, written(name))
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	return cut(strings.Trim(name, "-"), maxLabel)
}

// cut shortens a label.
func cut(label string, most int) string {
	return strings.TrimRight(label[:min(len(label), most)], "-")
}

// Identifier makes a name that a variable can have; "" when nothing is left.
func Identifier(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, written(name))
	if strings.Trim(name, "_") == "" {
		return ""
	}
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// Tag makes a name that a tag can have; "" when nothing is left.
func Tag(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("-._", r) || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, written(name))
	return strings.Trim(name[:min(len(name), maxLabel)], "-._")
}

// Cluster is the name of the plan's cluster with a context of the kubeconfig, which is
// declared if it is not; "" for no context.
func (p *Plan) Cluster(context string) string {
	if context == "" {
		return ""
	}
	name := cmp.Or(Label(context), "cluster")
	for n := 2; ; n++ {
		was := p.Clusters.Value(name)
		if was == nil {
			var c Fields
			c.Set("context", context)
			p.Clusters.Set(name, &c)
			return name
		}
		if len(was.Content) == 2 && was.Content[1].Value == context {
			return name
		}
		name = cut(cmp.Or(Label(context), "cluster"), maxLabel-4) + "-" + strconv.Itoa(n)
	}
}

// FreeCluster is the first name that no cluster of the plan has, or else a number more.
func (p *Plan) FreeCluster(names ...string) string {
	first := "cluster"
	for i, name := range names {
		label := Label(name)
		if label != "" && p.Clusters.Value(label) == nil {
			return label
		}
		if i == 0 {
			first = cmp.Or(label, first)
		}
	}
	name := first
	for n := 2; p.Clusters.Value(name) != nil; n++ {
		suffix := "-" + strconv.Itoa(n)
		name = cut(first, maxLabel-len(suffix)) + suffix
	}
	return name
}

// Var declares a variable, unless it is declared, and returns its fields for more.
func (p *Plan) Var(name, description string) *Fields {
	if p.Vars.Value(name) == nil {
		p.Vars.Keep(name, (&Fields{}).Node())
	}
	f := &Fields{node: p.Vars.Value(name)}
	if description != "" && f.Value("description") == nil {
		f.Set("description", description)
	}
	return f
}

// write writes the plan.
func (p *Plan) write(w io.Writer) error {
	var root, meta Fields
	root.Set("apiVersion", plan.APIVersion)
	root.Set("kind", plan.PlanKind)
	meta.Set("name", cmp.Or(Label(p.Name), "imported"))
	meta.Set("description", p.Description)
	root.Set("metadata", &meta)
	root.Set("vars", &p.Vars)
	root.Set("clusters", &p.Clusters)
	root.Set("repositories", &p.Repositories)
	root.Set("defaults", &p.Defaults)
	steps := &yaml.Node{Kind: yaml.SequenceNode}
	for _, s := range p.Steps {
		steps.Content = append(steps.Content, s.node())
	}
	root.Set("steps", steps)
	if len(p.Comments) > 0 {
		if _, err := io.WriteString(w, comment(p.Comments)+"\n"); err != nil {
			return err
		}
	}
	return encode(w, finished(root.node, planText))
}

// node is the step as a plan has it.
func (s *Step) node() *yaml.Node {
	var f Fields
	f.Set("name", s.Name)
	needs := &yaml.Node{Kind: yaml.SequenceNode}
	plain := true
	for _, n := range s.Needs {
		need := text(n.Step.Name)
		need.LineComment = comment([]string{n.Why})
		plain = plain && n.Why == ""
		needs.Content = append(needs.Content, need)
	}
	if plain {
		needs.Style = yaml.FlowStyle
	}
	f.Set("needs", needs)
	f.Set("when", s.When)
	f.Set("cluster", s.Cluster)
	f.Set("tags", s.Tags)
	if s.Timeout > 0 {
		f.Set("timeout", duration(s.Timeout))
	}
	f.Set("retry", &s.Retry)
	f.Keep(string(s.Kind), s.Fields.Node())
	f.node.HeadComment = comment(s.Comments)
	return f.node
}

// duration writes a time without parts that are zero: 10m and not 10m0s.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Reads are the names of the variables that expressions of Expr read, in the order in
// which they are first read.
func (p *Plan) Reads() []string {
	var names []string
	look := func(n *yaml.Node) {
		for _, name := range ReadBy(n) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, f := range []*Fields{&p.Clusters, &p.Repositories, &p.Defaults} {
		look(f.Node())
	}
	for _, s := range p.Steps {
		look(s.node())
	}
	return names
}

// ReadBy are the names of the variables that expressions in a value read.
func ReadBy(n *yaml.Node) []string {
	var names []string
	if n.Kind == yaml.ScalarNode {
		for code := range strings.SplitSeq(n.Value, string(exprBegin)) {
			code, _, ok := strings.Cut(code, string(exprEnd))
			if !ok {
				continue
			}
			for _, m := range readVar.FindAllStringSubmatch(code, -1) {
				names = append(names, m[1])
			}
		}
	}
	for _, x := range n.Content {
		names = append(names, ReadBy(x)...)
	}
	return names
}

var readVar = regexp.MustCompile(`\bvars\.([A-Za-z_]\w*)`)
