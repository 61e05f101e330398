package expr

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// guardedNames are the functions that can make much of little, or take long for
// it: they are refused before they do; see guard.
var guardedNames = []string{
	"matches",
	"charAt", "indexOf", "join", "lastIndexOf", "lowerAscii", "upperAscii", "replace", "reverse", "split", "substring",
	"trim", "format", "strings.quote",
	"slice", "flatten", "sort", "distinct", "lists.range",
	"sets.contains", "sets.equivalent", "sets.intersects",
	"base64.encode", "base64.decode",
}

// maxRange bounds lists.range, and maxPrecision the digits that format writes.
const (
	maxRange     = maxIterations
	maxPrecision = 100
)

// base is the language without names. To make it takes some milliseconds.
var base = sync.OnceValues(func() (*cel.Env, error) {
	libraries, err := cel.NewEnv(ext.Strings(ext.StringsMaxPrecision(maxPrecision)), ext.Lists(ext.ListsMaxRangeSize(maxRange)), ext.Sets(), ext.Encoders())
	if err != nil {
		return nil, err
	}
	opts := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: []*env.Function{env.NewFunction("matches")}})),
		cel.EagerlyValidateDeclarations(true),
		cel.CustomTypeAdapter(adapter{}),
		cel.EnableIdentifierEscapeSyntax(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(2 * maxSource),
		ext.Math(), ext.Bindings(), ext.TwoVarComprehensions(),
	}
	for _, name := range guardedNames {
		fn, ok := libraries.Functions()[name]
		if !ok {
			return nil, fmt.Errorf("CEL has no function %s", name)
		}
		opt, err := guarded(fn)
		if err != nil {
			return nil, err
		}
		opts = append(opts, opt)
	}
	return cel.NewCustomEnv(opts...)
})

// guarded declares a function anew, so that it is refused when its arguments are
// too much.
func guarded(fn *decls.FunctionDecl) (cel.EnvOption, error) {
	bindings, err := fn.Bindings()
	if err != nil {
		return nil, err
	}
	byID := map[string]*functions.Overload{}
	for _, b := range bindings {
		byID[b.Operator] = b
	}
	guard := func(code *functions.Overload) functions.FunctionOp {
		return func(args ...ref.Val) ref.Val { return call(fn.Name(), code, args...) }
	}
	var opts []cel.FunctionOpt
	for _, o := range fn.OverloadDecls() {
		var code []cel.OverloadOpt
		if !fn.HasSingletonBinding() {
			code = append(code, cel.FunctionBinding(guard(byID[o.ID()])))
		}
		declare := cel.Overload
		if o.IsMemberFunction() {
			declare = cel.MemberOverload
		}
		opts = append(opts, declare(o.ID(), o.ArgTypes(), o.ResultType(), code...))
	}
	if fn.HasSingletonBinding() {
		opts = append(opts, cel.SingletonFunctionBinding(guard(byID[fn.Name()])))
	}
	return cel.Function(fn.Name(), opts...), nil
}

// call calls a function unless its arguments are too much for it.
func call(name string, code *functions.Overload, args ...ref.Val) ref.Val {
	if _, ok := work(name, args); !ok {
		return types.NewErr("result too large")
	}
	switch {
	case len(args) == 1 && code.Unary != nil:
		return code.Unary(args[0])
	case len(args) == 2 && code.Binary != nil:
		return code.Binary(args[0], args[1])
	}
	return code.Function(args...)
}

// extend returns the language with names.
func extend(names map[string]Type) (*cel.Env, error) {
	from, err := base()
	if err != nil {
		return nil, err
	}
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	p := &provider{Registry: registry, objects: map[string]*Object{}}
	opts := []cel.EnvOption{cel.CustomTypeProvider(p)}
	for name, t := range names {
		p.add(t)
		opts = append(opts, cel.Variable(name, t.cel))
	}
	return from.Extend(opts...)
}
