package expr

import (
	"slices"

	"github.com/google/cel-go/cel"
)

// serverFunctions are those that the API server's CEL has and this language does not
// (k8s.io/apiserver/pkg/cel/library).
var serverFunctions = []string{
	"quantity", "isQuantity", "isInteger", "asInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "sign", "add", "sub",
	"url", "isURL", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery",
	"find", "findAll", "isSorted", "sum", "min", "max", "ip", "isIP", "ip.isCanonical", "family", "isUnspecified", "isLoopback",
	"isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "cidr", "isCIDR", "containsIP", "containsCIDR", "masked", "prefixLength",
	"semver", "isSemver", "major", "minor", "patch", "format.named", "validate", "includes",
}

// Check looks whether an expression over objects, which the API server's CEL evaluates
// later, can be read, uses no other names than the given ones, and gives a value of a type
// as far as that can be told. Functions that only the API server has are let pass, and
// then nothing is said of types. The error is an *Error.
func Check(text string, want Type, names ...string) error {
	if len(text) > maxSource {
		return &Error{Message: "the expression is too long: it has more than 8192 bytes"}
	}
	from, err := base()
	if err != nil {
		return &Error{Message: err.Error()}
	}
	opts := []cel.EnvOption{cel.OptionalTypes()}
	for _, name := range names {
		opts = append(opts, cel.Variable(name, cel.DynType))
	}
	env, err := from.Extend(opts...)
	if err != nil {
		return &Error{Message: err.Error()}
	}
	tree, issues := env.Parse(text)
	if issues.Err() != nil {
		return issueError(issues, nil, text, nil)
	}
	checked, issues := env.Check(tree)
	if issues.Err() != nil {
		fault := issueError(issues, tree.NativeRep(), text, nil)
		if slices.Contains(serverFunctions, fault.Missing) && len(fault.Path) == 0 {
			return strangers(tree.NativeRep(), text, names)
		}
		return fault
	}
	given := checked.OutputType()
	if !given.IsExactType(want.cel) && !given.IsExactType(cel.DynType) {
		return &Error{Message: "the expression gives " + Type{cel: given}.About() + ", not " + want.About()}
	}
	return nil
}
