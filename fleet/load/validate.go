package load

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// Bounds of what a fleet may ask for.
const (
	// maxClusters is how many clusters a fleet has at most: an Indexed Job that counts
	// failures by index has room for so many (k8s.io/kubernetes pkg/apis/batch/validation).
	maxClusters = 10_000
	maxWaves    = 100
)

const labelHint = "use small letters, digits and -, at most 63, starting and ending with a letter or digit"

// check looks for what the types alone cannot say. A field whose fault is reported already is
// empty, so empty fields are passed over.
func (p *pass) check() {
	p.checkConst(p.APIVersion, plan.APIVersion, path{"apiVersion"})
	p.checkConst(p.Kind, fleet.Kind, path{"kind"})
	p.checkLabel(p.Metadata.Name, "name of a fleet", path{"metadata", "name"})
	p.checkText(path{"plan", "file"}, "name the plan that runs")
	p.checkText(path{"plan", "cluster"}, "remove it to mean the cluster of steps that name none")
	p.checkClusters()
	p.checkInventory()
	p.checkWaves()
	p.checkEngine()
	p.strayExpressions(p.tree, nil)
	p.compileSelects()
	p.compileVars(p.Fleet.Fleet.Vars, path{"vars"})
}

// value returns what the file has at a path; nil when there is nothing.
func (p *pass) value(at path) any {
	var found any = p.tree
	for _, e := range at {
		switch e := e.(type) {
		case string:
			m, _ := found.(map[string]any)
			found = m[e]
		case int:
			l, _ := found.([]any)
			if e >= len(l) {
				return nil
			}
			found = l[e]
		}
	}
	return found
}

// checkText reports an empty text.
func (p *pass) checkText(at path, hint string) {
	if p.value(at) == "" {
		p.Report(fault{Code: document.CodeMissingField, At: at, Hint: hint}, "%s is empty", at.Last())
	}
}

func (p *pass) checkConst(got, want string, at path) {
	if got != "" && got != want {
		p.Report(fault{Code: document.CodeUnknownValue, At: at, Hint: "write " + want}, "%s is %q, but only %s is understood", at, document.Cut(got, 60), want)
	}
}

// checkLabel reports a text that is no DNS label.
func (p *pass) checkLabel(name, what string, at path) {
	switch {
	case name == "":
		p.checkText(at, "")
	case !isLabel(name):
		hint := labelHint
		if better := strings.Trim(strings.NewReplacer("_", "-", " ", "-", ".", "-", "/", "-").Replace(strings.ToLower(name)), "-"); isLabel(better) {
			hint = fmt.Sprintf("did you mean %q?", better)
		}
		p.Report(fault{At: at, Hint: hint}, "%q cannot be the %s", document.Cut(name, 80), what)
	}
}

func isLabel(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// checkSubdomain reports a text that cannot be the name of an object.
func (p *pass) checkSubdomain(name, what string, at path) {
	if name == "" {
		p.checkText(at, "")
	} else if len(validation.IsDNS1123Subdomain(name)) > 0 {
		p.Report(fault{At: at, Hint: "use small letters, digits, - and ., starting and ending with a letter or digit"}, "%q cannot be the name of a %s", document.Cut(name, 80), what)
	}
}

// sources are the fields of an inventory entry of which there is one.
var sources = []string{"capi", "k0rdent", "sveltos", "argocd", "contexts", "list"}

// oneOf reports how many of some fields a mapping has; of more than one it reports the last.
func (p *pass) oneOf(at path, fields []string, hint string) int {
	m, _ := p.value(at).(map[string]any)
	var given []string
	for _, name := range fields {
		if _, has := m[name]; has {
			given = append(given, name)
		}
	}
	if len(given) > 1 {
		last := slices.MaxFunc(given, func(a, b string) int {
			x, y := p.Source.KeyPos(at.Key(a)), p.Source.KeyPos(at.Key(b))
			return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Col, y.Col))
		})
		p.ReportField(fault{At: at.Key(last), Hint: hint}, "%s has more than one of %s: %s", at, document.OrList(fields), strings.Join(given, " and "))
	}
	return len(given)
}

// isEmptyList reports whether the file gives a list without items.
func (p *pass) isEmptyList(at path) bool {
	list, is := p.value(at).([]any)
	return is && len(list) == 0
}

func (p *pass) checkInventory() {
	if p.isEmptyList(path{"inventory"}) {
		p.ReportField(fault{Code: document.CodeMissingField, At: path{"inventory"}, Hint: "say where clusters are found: - contexts: {}"}, "the inventory is empty")
	}
	seen := map[string]path{}
	for i, entry := range p.Inventory {
		at := path{"inventory", i}
		m, is := p.value(at).(map[string]any)
		if is && p.oneOf(at, sources, "make an entry of each") == 0 && !p.mistyped(m, sources) {
			p.Report(fault{Code: document.CodeMissingField, At: at, Hint: "give it one of " + document.OrList(sources)}, "the entry does not say where clusters are found")
		}
		for name, o := range map[string]*fleet.ObjectSource{"capi": entry.CAPI, "k0rdent": entry.K0rdent, "sveltos": entry.Sveltos, "argocd": entry.ArgoCD} {
			if o != nil {
				p.checkObjects(o, at.Key(name))
			}
		}
		if entry.Contexts != nil {
			p.checkContexts(entry.Contexts, at.Key("contexts"))
		}
		if p.isEmptyList(at.Key("list")) {
			p.ReportField(fault{Code: document.CodeMissingField, At: at.Key("list"), Hint: "list a cluster, or remove the entry"}, "the list is empty")
		}
		for j, c := range entry.List {
			p.checkListed(c, at.Key("list").Index(j), seen)
		}
	}
}

// mistyped reports whether a mapping has a field that is nearly one of those.
func (p *pass) mistyped(m map[string]any, fields []string) bool {
	for k := range m {
		if k != "select" && (p.near.Find(k, fields) != "" || slices.Contains(fields, types.Aliases[k])) {
			return true
		}
	}
	return false
}

func (p *pass) checkObjects(o *fleet.ObjectSource, at path) {
	p.checkClusterName(o.Cluster, at.Key("cluster"))
	p.checkLabel(o.Namespace, "name of a namespace", at.Key("namespace"))
	p.checkText(at.Key("selector"), "remove it to take all")
	if _, err := labels.Parse(o.Selector); err != nil {
		p.Report(fault{At: at.Key("selector"), Hint: "write it as kubectl get -l takes it: tier=edge,region in (eu, us),!paused"}, "the label selector cannot be read: %s", document.Clean(err.Error()))
	}
}

func (p *pass) checkContexts(c *fleet.ContextSource, at path) {
	p.checkText(at.Key("kubeconfig"), "remove it to mean that of the command line")
	if p.isEmptyList(at.Key("names")) {
		p.ReportField(fault{Code: document.CodeMissingField, At: at.Key("names"), Hint: "remove it to take all contexts"}, "the list of names is empty")
	}
	for i, name := range c.Names {
		at := at.Key("names").Index(i)
		switch {
		case name == "":
			p.Report(fault{At: at, Hint: "remove it"}, "the name of the context is empty")
		case slices.Index(c.Names, name) < i:
			p.Report(fault{Code: document.CodeDuplicate, At: at, Hint: "remove it"}, "the context %q is there twice", document.Cut(name, 80))
		case strings.ContainsAny(name, "[]{}") && strings.ContainsAny(name, "*?"):
			p.Report(fault{At: at, Hint: "give each pattern an item of its own"}, "%q is no pattern: only * and ? stand for other characters", document.Cut(name, 80))
		}
	}
}

func (p *pass) checkListed(c fleet.Listed, at path, seen map[string]path) {
	p.checkLabel(c.Name, "name of a cluster", at.Key("name"))
	if first, twice := seen[c.Name]; twice {
		p.Report(fault{Code: document.CodeDuplicate, At: at.Key("name"), Hint: fmt.Sprintf("the other is in line %d", p.Source.ValuePos(first).Line)}, "the cluster %q is there twice", document.Cut(c.Name, 80))
	} else if c.Name != "" {
		seen[c.Name] = at
	}
	p.checkAccess(plan.Cluster{Context: c.Context, Kubeconfig: c.Kubeconfig, KubeconfigSecret: c.KubeconfigSecret, Namespace: c.Namespace}, c.Name, at)
}

func (p *pass) checkWaves() {
	switch {
	case p.isEmptyList(path{"waves"}):
		p.ReportField(fault{Code: document.CodeMissingField, At: path{"waves"}, Hint: "one wave of all clusters is: - {name: all}"}, "the fleet has no waves")
	case len(p.Waves) > maxWaves:
		p.Report(fault{At: path{"waves", maxWaves}}, "there are %d waves, but the most is %d", len(p.Waves), maxWaves)
	}
	seen := map[string]int{}
	for i, w := range p.Waves {
		at := path{"waves", i}
		p.checkLabel(w.Name, "name of a wave", at.Key("name"))
		if first, twice := seen[w.Name]; twice && w.Name != "" {
			p.Report(fault{Code: document.CodeDuplicate, At: at.Key("name"), Hint: fmt.Sprintf("the other is in line %d", p.Source.ValuePos(path{"waves", first}).Line)}, "the wave %q is there twice", document.Cut(w.Name, 80))
		} else {
			seen[w.Name] = i
		}
		if m, is := p.value(at).(map[string]any); is && m["select"] == nil && i < len(p.Waves)-1 && !p.mistyped(m, []string{"select"}) {
			p.Report(fault{Code: document.CodeMissingField, At: at, Hint: `say which clusters it has: select: cluster.labels.ring == "0"`}, "only the last wave may be without select")
		}
		if n, is := p.value(at.Key("parallel")).(int64); is && (n < 1 || n > maxClusters) {
			p.Report(fault{At: at.Key("parallel")}, "parallel is %d, but must be from 1 to %d", n, maxClusters)
		}
	}
}
