package expr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Error is a fault of a text or an expression.
type Error struct {
	// Offset is where it is in what was given, in bytes.
	Offset int
	// Message says what is wrong: lowercase, no final period, no values.
	Message string
	// Path and Missing are set when the fault is a name that is not known: Missing
	// stands where Path leads, or is a name by itself when Path is empty.
	Path    []string
	Missing string
	// Word and Words are set when the fault is that what Path leads to is compared
	// with Word, and is always one of Words.
	Word  string
	Words []string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// issueError turns the first fault that CEL found into an Error. Those after it
// are mostly of its making. Tree is nil when the expression cannot be parsed.
func issueError(issues *cel.Issues, tree *ast.AST, source string, moved offsets) *Error {
	all := issues.Errors()
	if len(all) == 0 {
		return &Error{Message: issues.Err().Error()}
	}
	first := all[0]
	e := &Error{Message: plain(first.Message)}
	char, _ := common.NewTextSource(source).LocationOffset(first.Location)
	at := byteOffset(source, max(int(char), 0))
	if m := reserved.FindStringSubmatch(first.Message); m != nil {
		e.Missing = m[1]
	}
	if tree != nil {
		e.Path, e.Missing = missing(tree, first.ExprID, first.Message)
		if len(e.Path) > 0 && strings.HasPrefix(source[at:], ".") {
			at++
			at += len(source[at:]) - len(strings.TrimLeft(source[at:], blanks+"`"))
		}
	}
	switch {
	case len(e.Path) > 0:
		e.Message = fmt.Sprintf("%s has no field %q", strings.Join(e.Path, "."), e.Missing)
	case e.Missing != "" && strings.HasPrefix(source[at:], "(") && strings.HasSuffix(source[:at], e.Missing):
		e.Message = fmt.Sprintf("there is no function %q", e.Missing)
		at -= len(e.Missing)
	case e.Missing != "":
		e.Message = fmt.Sprintf("the name %q is not known", e.Missing)
	}
	e.Offset = moved.back(at)
	return e
}

var (
	undefined  = regexp.MustCompile(`^undefined field '(.*)'$`)
	undeclared = regexp.MustCompile(`^undeclared reference to '(.*)' \(in container ''\)$`)
	reserved   = regexp.MustCompile(`^(?:Syntax error: )?reserved identifier: (.*)$`)
)

// missing tells the name that is not known, and where it should have been.
func missing(tree *ast.AST, id int64, message string) (path []string, name string) {
	if m := undeclared.FindStringSubmatch(message); m != nil {
		return nil, m[1]
	}
	m := undefined.FindStringSubmatch(message)
	if m == nil {
		return nil, ""
	}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() == id && e.Kind() == ast.SelectKind {
			path = written(e.AsSelect().Operand())
		}
	}))
	return path, m[1]
}

// written returns the names of a chain as they stand in the expression.
func written(e ast.Expr) []string {
	switch e.Kind() {
	case ast.IdentKind:
		return []string{e.AsIdent()}
	case ast.SelectKind:
		return append(written(e.AsSelect().Operand()), e.AsSelect().FieldName())
	default: // what stands before is no name
		return nil
	}
}

var (
	noOverload = regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'$`)
	expecting  = regexp.MustCompile(` expecting \{.*`)
)

// plain says in fewer words what CEL says.
func plain(message string) string {
	if m := noOverload.FindStringSubmatch(message); m != nil {
		name := m[1] + "()"
		if symbol, ok := operators.FindReverse(m[1]); ok && symbol != "" {
			name = symbol
		} else if m[1] == operators.Conditional {
			name = "? :"
		} else if m[1] == operators.Index {
			name = "[]"
		}
		return fmt.Sprintf("%s cannot be used on %s", name, m[2])
	}
	if strings.Contains(message, "recursion limit exceeded") {
		return "the expression is nested too deeply"
	}
	if rest, ok := strings.CutPrefix(message, "Syntax error: "); ok {
		rest = expecting.ReplaceAllString(rest, "")
		if what, atEnd := strings.CutSuffix(rest, " at '<EOF>'"); atEnd {
			return "the expression ends too early: " + what
		}
		if strings.Contains(rest, "'<EOF>'") {
			return "the expression ends too early"
		}
		return "the expression cannot be read: " + rest
	}
	return message
}

// known are what an evaluation fails with, as CEL begins to say it, and what is
// said here: CEL's own words may have values in them.
var known = []struct{ start, message string }{
	{"no such key", "a map does not have the key that is asked for"},
	{"no such attribute", "a value that is asked for is not there"},
	{"no such overload", "a value is of a type that the operator or function does not take"},
	{"index out of bounds", "a list does not have the item that is asked for"},
	{"invalid_argument: index", "a list does not have the item that is asked for"},
	{"division by zero", "division by zero"},
	{"modulus by zero", "division by zero"},
	{"integer overflow", "the number is too large"},
	{"unsigned integer overflow", "the number is too large"},
	{"range error", "the number is too large"},
	{"operation cancelled", "the expression takes too long"},
	{"operation interrupted", "the expression takes too long"},
	{"actual cost limit exceeded", "the expression takes too long"},
	{"result too large", "a text in the expression gets too long"},
}

// evalError tells of an evaluation that failed, at the place where it did.
func (p *Program) evalError(err error) *Error {
	e := &Error{Message: "a value cannot be converted, or a function does not take it"}
	for _, k := range known {
		if strings.Contains(err.Error(), k.start) {
			e.Message = k.message
			break
		}
	}
	var at *types.Err
	if errors.As(err, &at) && at.NodeID() != 0 {
		source := p.ast.Source().Content()
		if r, ok := p.ast.NativeRep().SourceInfo().GetOffsetRange(at.NodeID()); ok {
			_, moved := p.env.escape(p.text)
			e.Offset = moved.back(byteOffset(source, int(r.Start)))
		}
	}
	return e
}
