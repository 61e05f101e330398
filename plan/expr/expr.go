// Package expr is the language of the ${{ … }} in a plan: CEL, type-checked
// against what the plan declares, with bounded cost. An expression sees only the
// values that its Env names: it cannot reach the environment, files, the network,
// a clock or a source of randomness.
//
// The package knows nothing of plans, of files or of positions in them: faults
// are told as offsets into the text that was given.
package expr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// maxSource bounds the text of one expression, in bytes.
const maxSource = 8 << 10

// Env is what expressions are checked against: the names that they may use and
// their types. It keeps what it has compiled; it is safe for concurrent use.
type Env struct {
	names map[string]Type
	root  *Object
	// has reports whether there is a value at a path, see NewEnv.
	has func(path []string) bool

	mu       sync.Mutex
	cel      *cel.Env
	programs map[string]compiled
	// count is how many programs were given to CEL, ready which of them have what
	// evaluates them, the oldest first.
	count int
	ready []*Program
}

type compiled struct {
	program *Program
	err     error
}

// NewEnv makes an environment with the names that an expression may start with.
// Names with dashes are understood after a dot where they are fields of an Object,
// or where has tells that there is a value at the path: that is asked for the keys
// of maps, whose types do not say them. It may be nil.
func NewEnv(names map[string]Type, has func(path []string) bool) *Env {
	if has == nil {
		has = func([]string) bool { return false }
	}
	return &Env{names: names, root: NewObject("", Fields(names)), has: has, programs: map[string]compiled{}}
}

// Program is an expression that was compiled.
type Program struct {
	env  *Env
	text string
	typ  *cel.Type
	// path is the whole of an expression that only follows names, such as
	// vars.image.tag; such a one is not given to CEL at all.
	path []part
	refs []Ref
	ast  *cel.Ast
	// ready is what evaluates the expression; see program.
	ready cel.Program
}

// Bounds of what is kept: of a program's syntax, and of what evaluates it, which
// takes much more.
const (
	maxPrograms = 3000
	maxReady    = 64
)

// Compile parses and checks the text of one expression, without the ${{ and }}.
// The error is an *Error.
func (e *Env) Compile(text string) (*Program, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, ok := e.programs[text]; ok {
		return known.program, known.err
	}
	p, err := e.compile(text)
	e.programs[text] = compiled{p, err}
	return p, err
}

func (e *Env) compile(text string) (*Program, error) {
	if len(text) > maxSource {
		return nil, &Error{Message: "the expression is too long: it has more than 8192 bytes"}
	}
	if text == "" {
		return nil, &Error{Message: "the expression is empty"}
	}
	if p, fault, ok := e.compilePath(text); fault != nil {
		return nil, fault
	} else if ok {
		return p, nil
	}
	if e.cel == nil {
		env, err := extend(e.names)
		if err != nil {
			return nil, &Error{Message: err.Error()}
		}
		e.cel = env
	}
	if e.count++; e.count > maxPrograms {
		return nil, &Error{Message: fmt.Sprintf("the plan has more than %d different expressions", maxPrograms)}
	}
	source, moved := e.escape(text)
	parsed, issues := e.cel.Parse(source)
	if issues.Err() != nil {
		return nil, issueError(issues, nil, source, moved)
	}
	checked, issues := e.cel.Check(parsed)
	if issues.Err() != nil {
		return nil, issueError(issues, parsed.NativeRep(), source, moved)
	}
	p := &Program{env: e, text: text, typ: checked.OutputType(), ast: checked}
	p.refs = refs(checked.NativeRep(), e.root, source, moved)
	if err := e.checkUse(p); err != nil {
		return nil, err
	}
	if err := e.checkWords(p, source, moved); err != nil {
		return nil, err
	}
	return p, nil
}

// program returns what evaluates the expression.
func (p *Program) program() (cel.Program, error) {
	e := p.env
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.ready != nil {
		return p.ready, nil
	}
	made, err := e.cel.Program(p.ast, cel.CostTracking(costs{}), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(maxIterations))
	if err != nil {
		return nil, err
	}
	if e.ready = append(e.ready, p); len(e.ready) > maxReady {
		e.ready[0].ready = nil
		e.ready = slices.Delete(e.ready, 0, 1)
	}
	p.ready = made
	return made, nil
}

// checkUse refuses expressions that are too costly, and those that take an object
// for a value.
func (e *Env) checkUse(p *Program) error {
	for _, r := range p.refs {
		if t, ok := e.typeOf(partsOf(r.Path)); ok && t.isObject() {
			return &Error{Offset: r.Offset, Message: strings.Join(r.Path, ".") + " is not a value: name one of its fields"}
		}
	}
	cost, err := e.cel.EstimateCost(p.ast, costs{})
	if err != nil {
		return &Error{Message: err.Error()}
	}
	if cost.Max > maxEstimate {
		return &Error{Message: "the expression may take too long: let it go over fewer lists inside of each other"}
	}
	return nil
}

// Type is the type of the expression's value.
func (p *Program) Type() Type { return Type{cel: p.typ} }

// Refs are the names that the expression uses, each once, in its order.
func (p *Program) Refs() []Ref { return p.refs }

// Ref is a name that an expression uses, as far as it is the same in every
// evaluation: in vars.hosts[each.key].port that is vars.hosts.
type Ref struct {
	Path []string
	// Offset is where it stands in the text of the expression, in bytes.
	Offset int
	// Shows says that the result may be made of the value. It is not where the value
	// only decides what is: in a condition, as a key, as an argument of has.
	Shows bool
	// Tested says that the expression asks has(…) of it.
	Tested bool
}

// IsPath tells an expression that only follows names: its result is a value that
// was there before.
func (p *Program) IsPath() bool { return p.path != nil }

// Parse looks whether an expression can be read and uses no other names than the
// given ones. It does not look at types, nor at what functions there are: for
// expressions that somebody else evaluates. The error is an *Error.
func Parse(text string, names ...string) error {
	if len(text) > maxSource {
		return &Error{Message: "the expression is too long: it has more than 8192 bytes"}
	}
	env, err := base()
	if err != nil {
		return &Error{Message: err.Error()}
	}
	tree, issues := env.Parse(text)
	if issues.Err() != nil {
		return issueError(issues, nil, text, nil)
	}
	return strangers(tree.NativeRep(), text, names)
}

// Budget bounds the cost of many evaluations together. The zero value has nothing
// left. It is not safe for concurrent use.
type Budget struct{ left uint64 }

// NewBudget returns the budget for the expressions of one plan: about a second.
func NewBudget() *Budget { return &Budget{left: 50 * maxCost} }

// Eval returns the expression's value: nil, bool, int64, float64, string,
// json.Number, []any or map[string]any. Values are those of the root's fields.
// What is given and what was given before share nothing. The error is an *Error,
// whose message has no value in it: values may be secret.
func (p *Program) Eval(values map[string]any, budget *Budget) (any, error) {
	var c converter
	if p.path != nil {
		v, err := follow(values, p.path)
		if err != nil {
			return nil, err
		}
		v, err = c.convert(adapter{}.NativeToValue(v)) // a copy, as of any other value
		return v, p.wrap(err)
	}
	if budget.left == 0 {
		return nil, &Error{Message: "the expressions of the plan take too long"}
	}
	program, err := p.program()
	if err != nil {
		return nil, p.wrap(err)
	}
	out, details, err := program.ContextEval(ended, values)
	if cost := details.ActualCost(); cost != nil {
		budget.left -= min(budget.left, *cost+(*cost/50)*(*cost/50))
	}
	if err != nil {
		return nil, p.evalError(err)
	}
	if types.IsUnknownOrError(out) {
		return nil, p.evalError(errors.New("the value is not known"))
	}
	v, err := c.convert(out)
	return v, p.wrap(err)
}

// ended is a context that is over: CEL looks at it after maxIterations.
var ended = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the expression takes too long"))
	return ctx
}()

func (p *Program) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Message: err.Error()}
}
