package helmfile

import (
	"cmp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/foreign"
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
	}
	byName := map[string]*environment{}
	for _, p := range st.parts {
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

// declareVars declares the variables that the plan reads, and writes those of each
// environment but the default one into a file beside it.
func (im *importer) declareVars() error {
	reads := im.plan.Reads()
	for _, name := range im.fileReads {
		if !slices.Contains(reads, name) {
			reads = append(reads, name)
		}
	}
	for i := 0; i < len(reads); i++ { // a default may read another one
		name := reads[i]
		if im.plan.Vars.Value(name) != nil || declareEnv(im.plan, im.vars, name) {
			continue
		}
		if name == environmentVar && im.value(defaultEnvironment, name) == nil {
			f := im.plan.Var(name, "the environment, as helmfile -e")
			if im.environments == nil || slices.ContainsFunc(im.environments, func(e *environment) bool { return e.name == defaultEnvironment }) {
				f.Set("default", defaultEnvironment)
			}
			continue
		}
		f := im.plan.Var(name, "")
		value := im.value(defaultEnvironment, name)
		if value == nil || !im.hasPaths(name, value) {
			im.result.Before("give the variable %s: helmfile has no value of it for the default environment", name)
			continue
		}
		holder := im.holder(defaultEnvironment, name)
		if holder.at != nil {
			value = im.plan.Conceal(name, value, holder.at)
		}
		f.Keep("default", value)
		for _, more := range foreign.ReadBy(value) {
			if !slices.Contains(reads, more) {
				reads = append(reads, more)
			}
		}
		if value.Kind == yaml.ScalarNode && foreign.HasExpr(value.Value) { // a variable cannot be made of another one
			drop(f, "default")
		}
	}
	im.tellUnread(reads)
	return im.writeEnvironments(reads)
}

// drop takes a field away.
func drop(f *foreign.Fields, name string) {
	n := f.Node()
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

// holder is the environment of the first helmfile that has a value; nil when none has.
func (im *importer) holder(env, name string) *environment {
	for _, e := range im.environments {
		if e.name == env && field(e.values, name) != nil {
			return e
		}
	}
	return nil
}

// value is one of an environment; nil when it has none.
func (im *importer) value(env, name string) *yaml.Node {
	if e := im.holder(env, name); e != nil {
		return field(e.values, name)
	}
	return nil
}

// field is a field of a mapping; nil when there is none.
func field(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// hasPaths reports whether a value has all that expressions of the plan read of it.
func (im *importer) hasPaths(name string, value *yaml.Node) bool {
	for _, code := range im.plan.Expressions() {
		for rest := code; ; {
			i := strings.Index(rest, "vars."+name+".")
			if i < 0 {
				break
			}
			rest = rest[i+len("vars."+name+"."):]
			at := value
			for _, part := range strings.Split(pathOf(rest), ".") {
				if at = field(at, part); at == nil {
					return false
				}
			}
		}
	}
	return true
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
		if e.values == nil || e.at == nil {
			continue
		}
		var unread []string
		for i := 0; i+1 < len(e.values.Content) && e.values.Kind == yaml.MappingNode; i += 2 {
			if name := e.values.Content[i].Value; !slices.Contains(reads, name) && !told[name] {
				told[name] = true
				unread = append(unread, name)
			}
		}
		if len(unread) > 0 {
			im.result.Lost(e.at.Place(), "nothing in the plan reads them; "+build, "no variable is made of these values of environments: %s", strings.Join(unread, ", "))
		}
	}
}

// writeEnvironments writes a var file for each environment but the default one.
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
			if name == environmentVar && im.value(env, name) == nil {
				vars.Set(name, env)
				continue
			}
			e := im.holder(env, name)
			if e == nil || im.plan.Vars.Value(name) == nil {
				continue
			}
			value := field(e.values, name)
			if len(foreign.ReadBy(value)) > 0 {
				im.result.Lost(e.at.Place(), "give it with --set", "the value %s of the environment %s depends on a template", name, env)
				continue
			}
			vars.Keep(name, value)
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

// fileName is a name of a file beside the plan that is not taken.
func (im *importer) fileName(name string) string {
	for im.written[name] {
		name = "x-" + name
	}
	im.written[name] = true
	return name
}
