package helmfile

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan/document"
)

// defaultEnvironment is the one that helmfile takes without -e.
const defaultEnvironment = "default"

// environment is what one helmfile says of an environment.
type environment struct {
	name string
	// values are those of the environment, over those that hold for all; nil is none.
	values *yaml.Node
	at     *foreign.Value
}

// readEnvironments reads the values of all environments, and those of the helmfile that
// hold for each.
func (st *state) readEnvironments() {
	var common *yaml.Node
	for _, p := range st.parts {
		common = foreign.Merge(common, st.stateValues(p.Get("values")))
		if all := p.Get("renderedvalues"); all.IsMap() { // what helmfile build has made of one environment
			common = foreign.Merge(common, all.Node())
			p.Get("environments").Take()
		}
	}
	byName := map[string]*environment{}
	for _, p := range st.parts {
		if p.Get("renderedvalues").IsMap() {
			continue
		}
		for _, f := range p.Get("environments").Fields() {
			e := byName[f.Name()]
			if e == nil {
				e = &environment{name: f.Name(), at: f, values: common}
				byName[e.name] = e
				st.envs = append(st.envs, e)
			}
			e.values = foreign.Merge(e.values, st.stateValues(f.Get("values")))
			e.values = foreign.Merge(e.values, st.stateValues(f.Get("secrets")))
			f.Get("missingFileHandler").Take()
			if !f.IsMap() {
				f.Take()
			}
		}
	}
	if byName[defaultEnvironment] == nil && common != nil {
		st.envs = append(st.envs, &environment{name: defaultEnvironment, values: common})
	}
}

// stateValues are those of a list of files and mappings, as templates read them.
func (st *state) stateValues(v *foreign.Value) *yaml.Node {
	var all *yaml.Node
	for _, item := range v.Items() {
		if item.IsMap() {
			all = foreign.Merge(all, item.Node())
			continue
		}
		name := item.Text()
		if strings.HasSuffix(name, ".gotmpl") {
			item.Lost(build, "values of the template %s are not known", name)
			continue
		}
		if name == "" {
			continue
		}
		docs, err := st.open(item, name, nil)
		if err != nil {
			item.Lost("", "values of %s cannot be read: %v", name, err)
			continue
		}
		for _, doc := range docs {
			if doc.Get("sops").IsMap() {
				item.Lost("give them as variables: kplan opens var files that SOPS encrypted, kplan run --var-file FILE", "the encrypted values of %s are not read", name)
				break
			}
			all = foreign.Merge(all, doc.Node())
		}
	}
	return all
}

// nameVars gives each value of an environment that the plan reads, such as shop.tag, a
// variable of its own, such as shop_tag: a default cannot be a part of a map, and no
// default may be a secret. A value that is made of another variable is put in instead.
func (im *importer) nameVars() {
	for _, f := range []*foreign.Fields{&im.plan.Repositories, &im.plan.Clusters} {
		im.nameIn(f.Node())
	}
	for _, s := range im.plan.Steps {
		s.When = im.named(s.When, 0)
		im.nameIn(s.Fields.Node())
	}
	for _, f := range im.valueFiles {
		im.nameIn(f.values)
	}
}

func (im *importer) nameIn(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && foreign.HasExpr(n.Value) {
		n.Value = im.named(n.Value, 0)
	}
	for _, x := range n.Content {
		im.nameIn(x)
	}
}

var readPath = regexp.MustCompile(`\bvars\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)`)

// named is a text with its variables named. Values of environments may be made of others,
// to a depth that nobody needs.
func (im *importer) named(text string, depth int) string {
	return foreign.Replace(text, func(code string) string {
		if m := readPath.FindStringSubmatch(code); m != nil && m[0] == code && depth < 8 {
			if made, ok := im.madeOf(m[1]); ok {
				return im.named(made, depth+1)
			}
		}
		return foreign.Expr(readPath.ReplaceAllStringFunc(code, func(ref string) string {
			path := strings.TrimPrefix(ref, "vars.")
			id := foreign.Identifier(path)
			if _, ok := im.paths[id]; !ok {
				im.paths[id] = path
			}
			return "vars." + id
		}))
	})
}

// madeOf is the text of a value that is made of other variables, if that is so in each
// environment that has it.
func (im *importer) madeOf(path string) (text string, ok bool) {
	for _, e := range im.environments {
		n := field(e.values, path)
		switch {
		case n == nil:
		case n.Kind != yaml.ScalarNode || !foreign.HasExpr(n.Value) || ok && n.Value != text:
			return "", false
		default:
			text, ok = n.Value, true
		}
	}
	return text, ok
}

// declareVars declares the variables that the plan reads, and writes those of each
// environment but the default one into a file beside it.
func (im *importer) declareVars() error {
	im.nameVars()
	reads := im.plan.Reads()
	for _, f := range im.valueFiles {
		for _, name := range foreign.ReadBy(f.values) {
			if !slices.Contains(reads, name) {
				reads = append(reads, name)
			}
		}
	}
	for _, name := range reads {
		if !declareEnv(im.plan, im.vars, name) {
			im.declare(name)
		}
	}
	im.tellUnread(reads)
	return im.writeEnvironments(reads)
}

// declare declares a variable for a value of environments.
func (im *importer) declare(name string) {
	if declared := im.plan.Vars.Value(name); declared != nil {
		return
	}
	path := im.paths[name]
	e := im.holder(defaultEnvironment, path)
	switch {
	case e == nil && name == environmentVar:
		f := im.plan.Var(name, "the environment, as helmfile -e")
		if im.environments == nil || slices.ContainsFunc(im.environments, func(e *environment) bool { return e.name == defaultEnvironment }) {
			f.Set("default", defaultEnvironment)
		}
	case e == nil:
		im.plan.Var(name, "")
		im.result.Before("give the variable %s: helmfile has no value of it for the default environment", name)
	default:
		f := im.plan.Var(name, "")
		value := field(e.values, path)
		switch {
		case foreign.HasSecret(lastOf(path), value):
			f.Set("sensitive", true)
			im.result.Add(foreign.SecretFinding(e.place(), name))
		case len(foreign.ReadBy(value)) > 0:
			im.result.Before("give the variable %s: in the helmfile it is made of others", name)
		case value.ShortTag() != "!!bool" && im.isCondition(name):
			im.result.Before("give the variable %s, true or false: a condition of helmfile that is neither ends it", name)
		default:
			f.Keep("default", value)
		}
	}
}

// isCondition reports whether a variable says if a step runs.
func (im *importer) isCondition(name string) bool {
	return slices.ContainsFunc(im.plan.Steps, func(s *foreign.Step) bool {
		return slices.Contains(foreign.ReadBy(foreign.TextNode(s.When)), name)
	})
}

func lastOf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// place is where the environment stands.
func (e *environment) place() document.Place {
	if e.at == nil {
		return document.Place{}
	}
	return e.at.Place()
}

// holder is the environment of the first helmfile that has a value; nil when none has.
func (im *importer) holder(env, path string) *environment {
	for _, e := range im.environments {
		if e.name == env && field(e.values, path) != nil {
			return e
		}
	}
	return nil
}

// field is a value below a mapping, at a path such as shop.tag; nil when there is none.
func field(n *yaml.Node, path string) *yaml.Node {
	name, rest, more := strings.Cut(path, ".")
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			if more {
				return field(n.Content[i+1], rest)
			}
			return n.Content[i+1]
		}
	}
	return nil
}

// pathOf is the path of fields that a text begins with.
func pathOf(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end < 0 {
		end = len(s)
	}
	return strings.TrimRight(s[:end], ".")
}

// tellUnread tells of values of environments that nothing in the plan reads: they were
// for templates that are not rendered.
func (im *importer) tellUnread(reads []string) {
	told := map[string]bool{}
	for _, e := range im.environments {
		if e.values == nil || e.at == nil || e.values.Kind != yaml.MappingNode {
			continue
		}
		var unread []string
		for i := 0; i+1 < len(e.values.Content); i += 2 {
			name := e.values.Content[i].Value
			isRead := slices.ContainsFunc(reads, func(id string) bool { return strings.HasPrefix(im.paths[id]+".", name+".") })
			if made, _ := im.madeOf(name); !isRead && !told[name] && made == "" {
				told[name] = true
				unread = append(unread, name)
			}
		}
		if len(unread) > 0 {
			im.result.Lost(e.at.Place(), "nothing in the plan reads them; "+build, "no variable is made of these values of environments: %s", strings.Join(unread, ", "))
		}
	}
}

// writeEnvironments writes a var file for each environment but the default one. Secrets
// are not copied.
func (im *importer) writeEnvironments(reads []string) error {
	var names []string
	for _, e := range im.environments {
		if e.name != defaultEnvironment && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	for _, env := range names {
		var vars foreign.Fields
		for _, name := range reads {
			im.addTo(&vars, env, name)
		}
		if vars.Len() == 0 {
			continue
		}
		text, err := foreign.Text(vars.Node(), false)
		if err != nil {
			return err
		}
		file := im.fileName(cmp.Or(foreign.Label(env), "environment") + ".vars.yaml")
		im.result.Files = append(im.result.Files, foreign.File{Name: file, Data: text})
		im.plan.Comments = append(im.plan.Comments, "For the environment "+env+": --var-file "+file)
	}
	return nil
}

// addTo adds the value that a variable has in an environment.
func (im *importer) addTo(vars *foreign.Fields, env, name string) {
	path := im.paths[name]
	e := im.holder(env, path)
	switch {
	case e == nil && name == environmentVar:
		vars.Set(name, env)
		return
	case e == nil:
		return
	}
	switch value := field(e.values, path); {
	case foreign.HasSecret(lastOf(path), value):
		im.result.Add(foreign.SecretFinding(e.place(), name))
		markSensitive(im.plan, name)
	case len(foreign.ReadBy(value)) > 0:
		im.result.Lost(e.place(), "give it with --set", "the value %s of the environment %s depends on a template", path, env)
	default:
		vars.Keep(name, value)
	}
}

// markSensitive says that nobody may see a variable.
func markSensitive(p *foreign.Plan, name string) { p.Var(name, "").Set("sensitive", true) }

// fileName is a name of a file beside the plan that is not taken.
func (im *importer) fileName(name string) string {
	for im.written[name] {
		name = "x-" + name
	}
	im.written[name] = true
	return name
}
