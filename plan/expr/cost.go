package expr

import (
	"strings"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Bounds of cost, in CEL's units: one for a step of the evaluation, and one for
// ten characters that are looked at.
const (
	// maxCost bounds one evaluation.
	maxCost = 100_000
	// maxIterations bounds how often its macros go around, all together: what CEL
	// takes to count the cost grows with the square of that.
	maxIterations = 5_000
	// maxEstimate bounds what an evaluation may cost when all lists and texts that
	// it starts from have guessSize items or characters.
	maxEstimate = 200_000_000
	guessSize   = 1000
)

// maxWork bounds what one call of a function may look at or make, in characters
// and items.
const maxWork = 1 << 19

// costs tells CEL of costs that it does not know itself.
type costs struct{}

// EstimateSize implements checker.CostEstimator.
func (costs) EstimateSize(checker.AstNode) *checker.SizeEstimate {
	return &checker.SizeEstimate{Min: 0, Max: guessSize}
}

// EstimateCallCost implements checker.CostEstimator.
func (costs) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// CallCost implements interpreter.ActualCostEstimator.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	n, ok := 0, true
	switch function {
	case "size":
		if text, isText := args[0].(types.String); isText {
			n = len(text)
		}
	case operators.Equals, operators.NotEquals, operators.In:
		_, isMap := args[1].(traits.Mapper)
		switch {
		case function == operators.In && isMap, !isAggregate(args[0]) && function != operators.In:
			return nil
		case !isAggregate(args[0]):
			n = sizeOf(args[1])
		default:
			n = weight(args[0]) + weight(args[1])
		}
	default:
		if n, ok = work(function, args); n == 0 {
			return nil
		}
	}
	cost := uint64(1 + n/10)
	if !ok {
		cost = maxCost
	}
	return &cost
}

func isAggregate(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	}
	return false
}

// work returns what a call of a guarded function looks at and makes; 0 for other
// functions. ok is false if that is too much.
func work(function string, args []ref.Val) (n int, ok bool) {
	switch function {
	case "replace":
		text, from, to := textOf(args[0]), textOf(args[1]), textOf(args[2])
		n = len(text) + strings.Count(text, from)*len(to)
	case "join":
		n = weight(args[0])
		if list, isList := args[0].(traits.Lister); isList && len(args) > 1 {
			n += sizeOf(list) * len(textOf(args[1]))
		}
	case "format":
		text := textOf(args[0])
		n = len(text) + strings.Count(text, "%")*maxPrecision + weight(args[1])
	case "distinct", "sets.contains", "sets.equivalent", "sets.intersects":
		n = weight(args[0]) * max(1, sizeOf(args[len(args)-1]))
	case "matches":
		pattern := len(textOf(args[1]))
		if pattern > 1000 {
			return maxWork, false
		}
		n = (1 + len(textOf(args[0]))) * (1 + pattern/4)
		return min(n, maxWork+1), n <= maxWork
	case "indexOf", "lastIndexOf":
		n = len(textOf(args[0])) + len(textOf(args[1]))
	case "charAt", "lowerAscii", "upperAscii", "reverse", "split", "substring", "trim", "strings.quote",
		"slice", "flatten", "sort", "base64.encode", "base64.decode":
		n = 1 + weight(args[0])
	case "lists.range":
		n = maxRange
	}
	return min(n, maxWork+1), n <= maxWork
}

func textOf(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

func sizeOf(v ref.Val) int {
	if s, ok := v.(traits.Sizer); ok {
		if n, ok := s.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 1
}

// weight counts the characters and items of a value, up to a bit over maxWork.
func weight(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case traits.Mapper:
		n := 1
		for it := v.Iterator(); n <= maxWork && it.HasNext() == types.True; {
			key := it.Next()
			n += weight(key) + weight(v.Get(key))
		}
		return n
	case traits.Lister:
		n := 1
		for it := v.Iterator(); n <= maxWork && it.HasNext() == types.True; {
			n += weight(it.Next())
		}
		return n
	}
	return 1
}
