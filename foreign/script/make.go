package script

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/internal/scrub"
	"github.com/kplan-dev/kplan/plan/document"
)

// isMakefile reports whether a file is a Makefile, by its name.
func isMakefile(name string) bool {
	base := strings.ToLower(path.Base(name))
	return strings.HasPrefix(base, "makefile") || strings.HasPrefix(base, "gnumakefile") || strings.HasSuffix(base, ".mk")
}

var (
	makeAssign = regexp.MustCompile(`^(?:export\s+|override\s+)?([A-Za-z_][\w.-]*)\s*(\?=|::?=|=|\+=)\s*(.*)$`)
	makeRule   = regexp.MustCompile(`^([^\s:#=][^:#=]*):{1,2}([^=].*)?$`)
	makeRef    = regexp.MustCompile(`\$\(([A-Za-z_][\w.-]*)\)`)
	makeFunc   = regexp.MustCompile(`\$\([a-z-]+ [^()]*\)`)
)

// recipe is a target with its lines.
type recipe struct {
	name  string
	needs []string
	lines []recipeLine
}

// recipeLine is one command, which may go on over several lines of the file.
type recipeLine struct {
	number int
	text   string
}

// makefile imports the targets of a Makefile, each after those that it needs.
func (im *importer) makefile(f foreign.File) error {
	w := newWalker(im, f.Name, 0)
	recipes := w.readMakefile(string(f.Data))
	m := &maker{walker: w, recipes: map[string]*recipe{}, done: map[string]bool{}}
	for _, r := range recipes {
		m.recipes[r.name] = r
	}
	for _, r := range recipes {
		if err := m.make(r, 0); err != nil {
			return err
		}
	}
	im.tags = nil
	return nil
}

// maker imports targets.
type maker struct {
	*walker
	recipes map[string]*recipe
	done    map[string]bool
}

func (m *maker) make(r *recipe, depth int) error {
	if m.done[r.name] || depth > maxSteps {
		return nil
	}
	m.done[r.name] = true
	for _, need := range r.needs {
		if other := m.recipes[need]; other != nil {
			if err := m.make(other, depth+1); err != nil {
				return err
			}
		}
	}
	m.tags = nil
	if tag := foreign.Tag(r.name); tag != "" {
		m.tags = []string{tag}
	}
	for _, line := range r.lines {
		file, err := parse(m.name, line.text)
		if err != nil {
			m.result.Lost(document.Place{Pos: document.Pos{File: m.name, Line: line.number, Col: 1}}, "write what it does as a step", "the line is not understood")
			continue
		}
		m.line = line.number - 1
		m.folder = path.Dir(m.name) // each line has a shell of its own
		if err := m.run(file); err != nil {
			return err
		}
	}
	return nil
}

// readMakefile notes variables and returns the targets.
func (w *walker) readMakefile(text string) []*recipe {
	var all []*recipe
	var current *recipe
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		number := i + 1
		line := lines[i]
		for strings.HasSuffix(line, "\\") && i+1 < len(lines) {
			i++
			line += "\n" + strings.TrimPrefix(lines[i], "\t")
		}
		switch joined := strings.TrimSpace(strings.ReplaceAll(line, "\\\n", " ")); {
		case strings.HasPrefix(line, "\t") && current != nil:
			current.add(number, strings.TrimPrefix(line, "\t"))
		case joined == "" || strings.HasPrefix(joined, "#"):
		case makeAssign.MatchString(joined):
			w.makeVariable(makeAssign.FindStringSubmatch(joined), number)
		case makeRule.MatchString(joined):
			m := makeRule.FindStringSubmatch(joined)
			needs, command, _ := strings.Cut(m[2], ";")
			current = &recipe{needs: strings.Fields(needs)}
			current.add(number, strings.TrimSpace(command))
			names := strings.Fields(m[1])
			if slices.Contains(names, ".PHONY") || strings.HasPrefix(m[1], ".") || len(names) == 0 {
				current = nil
				continue
			}
			current.name = names[0]
			all = append(all, current)
		case strings.HasPrefix(joined, "include"), strings.HasPrefix(joined, "-include"):
			w.result.Lost(document.Place{Pos: document.Pos{File: w.name, Line: number, Col: 1}}, "import that file too", "the file that is included is not read: %s", joined)
		case strings.HasPrefix(joined, "ifeq"), strings.HasPrefix(joined, "ifneq"), strings.HasPrefix(joined, "ifdef"), strings.HasPrefix(joined, "ifndef"):
			w.result.Changed(document.Place{Pos: document.Pos{File: w.name, Line: number, Col: 1}}, "take out what is not meant", "what holds only sometimes is taken as if it always did: %s", joined)
		default:
			i = w.otherLine(lines, i, joined)
		}
	}
	return all
}

// otherLine tells of a line that is neither a variable nor a target, and returns the last
// line that goes with it.
func (w *walker) otherLine(lines []string, i int, text string) (last int) {
	word, _, _ := strings.Cut(text, " ")
	at := document.Place{Pos: document.Pos{File: w.name, Line: i + 1, Col: 1}}
	switch word {
	case "else", "endif", "export", "unexport", "vpath", "endef":
		return i
	case "define":
		w.result.Lost(at, "import what it becomes: make -n TARGET | kplan import script -", "text that the Makefile defines is not imported")
		for end := i + 1; end < len(lines); end++ {
			if strings.HasPrefix(strings.TrimSpace(lines[end]), "endef") {
				return end
			}
		}
		return i
	}
	w.result.Lost(at, "import what it becomes: make -n TARGET | kplan import script -", "the line is not understood")
	return i
}

// add adds a line of a recipe.
func (r *recipe) add(number int, line string) {
	command := strings.TrimLeft(line, "@-+ \t")
	if command == "" {
		return
	}
	if strings.Contains(line[:len(line)-len(command)], "-") {
		command += " || true" // make goes on when it fails
	}
	r.lines = append(r.lines, recipeLine{number, shellText(command)})
}

// shellText is a recipe's line as the shell gets it.
func shellText(s string) string {
	s = makeFunc.ReplaceAllString(s, "$${MAKE_FUNCTION}")
	s = makeRef.ReplaceAllStringFunc(s, func(m string) string {
		return "${" + strings.NewReplacer(".", "_", "-", "_").Replace(m[2:len(m)-1]) + "}"
	})
	return strings.ReplaceAll(s, "$$", "$")
}

// makeVariable notes the value of a variable.
func (w *walker) makeVariable(m []string, number int) {
	name, op, value := strings.NewReplacer(".", "_", "-", "_").Replace(m[1]), m[2], m[3]
	if i := strings.Index(value, " #"); i >= 0 {
		value = value[:i]
	}
	value = strings.Trim(strings.TrimSpace(value), `"`)
	at := document.Place{Pos: document.Pos{File: w.name, Line: number, Col: 1}}
	if slices.Contains(aims, name) {
		w.result.Lost(at, aimed, "where helm and kubectl work by the variable %s is not imported", name)
	}
	var text string
	switch {
	case strings.HasPrefix(value, "$(shell"), makeFunc.MatchString(value):
		text = foreign.Expr("vars." + w.declare(name, variable{about: "what make works out", at: at}))
		w.result.Lost(at, "give it with --set", "what make works out is not known: %s", briefly(scrub.Text(value)))
	default:
		text = makeRef.ReplaceAllStringFunc(value, func(ref string) string {
			return w.values[strings.NewReplacer(".", "_", "-", "_").Replace(ref[2:len(ref)-1])]
		})
	}
	switch {
	case op == "+=":
		w.values[name] += " " + text
	case op == "?=" && !foreign.HasExpr(text) && !isProgram(text) && !strings.Contains(text, " "):
		w.values[name] = foreign.Expr("vars." + w.declare(name, variable{env: m[1], fallback: &text, at: at}))
	case foreign.HasExpr(text) || text == "" || isProgram(text) || strings.Contains(text, " "):
		w.values[name] = text
	default:
		w.values[name] = foreign.Expr("vars." + w.declare(name, variable{fallback: &text, at: at}))
	}
}
