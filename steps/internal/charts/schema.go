package charts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// SchemaFault is how Helm begins what the schemas of a chart say of its values.
const SchemaFault = "values don't meet the specifications of the schema"

// Refused is a value that the schema of a chart, or of a subchart, refuses.
type Refused struct {
	document.Place
	// Chart is whose schema it is, and Value the value's name below the chart's, such as
	// sub.service.port; "" is all of them.
	Chart, Value string
	// Rule is what the schema says, without the value.
	Rule string
	// ByChart says that the value is the chart's own: the place is that of the chart.
	ByChart bool
}

// String tells the value with its place.
func (r Refused) String() string {
	text := r.Rule
	if r.Value != "" {
		text = r.Value + ": " + text
	}
	switch {
	case r.ByChart:
		text += " (a value of the chart itself)"
	case r.Line > 0:
		text = r.Pos.String() + ": " + text
	}
	return text
}

// Lines of what Helm says of schemas (helm.sh/helm/v3 pkg/chartutil/jsonschema.go), and of
// the library that it asks: charts, and their faults, deeper ones with more blanks.
var (
	chartLine = regexp.MustCompile(`^(\S+):$`)
	faultLine = regexp.MustCompile(`^( *)- at '(.*?)': (.*)$`)
)

// Refused finds where the values were given that schemas refuse, in the error of a
// render; text is that error without the values themselves. It is empty for other errors.
func (c *Chart) Refused(ch *engine.Chart, text string) []Refused {
	_, said, found := strings.Cut(text, SchemaFault)
	if !found {
		return nil
	}
	var all []Refused
	name, within := ch.Name(), document.Path{}
	for line := range strings.Lines(said) {
		line = strings.TrimRight(line, "\n")
		if m := chartLine.FindStringSubmatch(line); m != nil {
			name, within = m[1], below(ch, m[1])
		}
		m := faultLine.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[1] != "" && len(all) > 0: // why none of several rules holds
			all[len(all)-1].Rule += "; " + m[3]
		default:
			at := slices.Concat(within, pointer(m[2]))
			r := Refused{Chart: name, Value: at.String(), Rule: m[3]}
			r.Place, r.ByChart = c.given(at)
			all = append(all, r)
		}
	}
	return all
}

// pointer is the path that a JSON pointer says.
func pointer(text string) document.Path {
	var at document.Path
	for _, e := range strings.Split(text, "/")[1:] {
		e = strings.NewReplacer("~1", "/", "~0", "~").Replace(e)
		if n, err := strconv.Atoi(e); err == nil {
			at = append(at, n)
			continue
		}
		at = append(at, e)
	}
	return at
}

// below is where the values of a subchart of some name stand among those of a chart.
func below(ch *engine.Chart, name string) document.Path {
	if ch.Name() == name {
		return nil
	}
	for _, sub := range ch.Dependencies() {
		if sub.Name() == name {
			return document.Path{name}
		}
		if at := below(sub, name); len(at) > 0 {
			return slices.Concat(document.Path{sub.Name()}, at)
		}
	}
	for _, d := range ch.Metadata.Dependencies {
		if d.Alias == name {
			return document.Path{name}
		}
	}
	return nil
}

// given finds where a value was given last: in the plan, or in a file of values. Of one
// that is nowhere it finds what is to hold it, and else the chart: it says that the value
// is the chart's own.
func (c *Chart) given(at document.Path) (place document.Place, byChart bool) {
	sources := c.sources()
	for n := len(at); n > 0; n-- {
		for _, s := range sources {
			if full := slices.Concat(s.At, at[:n]); s.Text.Find(full...) != nil {
				return s.Text.Place(full...), false
			}
		}
	}
	own := len(at) == 0 // what is missing can be given in the plan
	if own && len(c.Spec.Values) > 0 {
		return c.step.Locate("helm", "values"), false
	}
	return c.step.Locate("helm", "chart"), !own
}

// sources are the texts with the step's values, the last one first.
func (c *Chart) sources() []document.Origin {
	var all []document.Origin
	if t := c.step.Origin.Text; t != nil {
		all = append(all, document.Origin{Text: t, At: slices.Concat(c.step.Origin.At, document.Path{"helm", "values"})})
	}
	for _, name := range slices.Backward(c.Spec.ValuesFiles) {
		text, err := os.ReadFile(c.step.Path(name))
		if err != nil {
			continue // Values says so
		}
		shown := name
		if t := c.step.Origin.Text; t != nil && !filepath.IsAbs(name) {
			shown = filepath.Join(filepath.Dir(t.File()), name)
		}
		all = append(all, document.Origin{Text: document.NewPart(shown, 1, text)})
	}
	return all
}

// RefusedError says where the values are that schemas refuse.
func RefusedError(all []Refused) error {
	var said []string
	for _, r := range all {
		said = append(said, r.String())
	}
	return fmt.Errorf("%s of chart %s: %s", SchemaFault, all[0].Chart, strings.Join(said, "; "))
}

// quotedValues are the places where the JSON schema library puts a value into
// an error (github.com/santhosh-tekuri/jsonschema/v6/kind/kind.go); each is on
// one line.
var quotedValues = []struct {
	at *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`: '.*' does not match pattern `), ": the value does not match pattern "},
	{regexp.MustCompile(`: (?:'.*'|\S+) is not valid (\S+): .*`), ": the value is not a valid $1"},
	{regexp.MustCompile(`((?:inimum|aximum|multipleOf): got )\S+, `), "${1}another, "},
}

// WithoutValues takes the values of a chart out of what its schema says of
// them; their paths and the rules stay.
func WithoutValues(text string) string {
	if !strings.Contains(text, SchemaFault) {
		return text
	}
	for _, q := range quotedValues {
		text = q.at.ReplaceAllString(text, q.by)
	}
	return text
}
