// Package value is what a file has in its fields, as decoded from YAML, and what
// stands in place of a value that nobody knows. It reads no YAML itself.
package value

import "slices"

type (
	// Invalid stands for a value whose fault is reported already, so that nothing
	// more is said about it.
	Invalid struct{}
	// Deferred stands for a value that is known only when a step needs it.
	Deferred struct{}
)

// IsUnsaid reports whether nothing is to be said of a value: it is Invalid or Deferred.
func IsUnsaid(v any) bool {
	switch v.(type) {
	case Invalid, Deferred:
		return true
	}
	return false
}

// IsScalar reports whether a value is neither null nor a list nor a map.
func IsScalar(v any) bool {
	switch v.(type) {
	case nil, []any, map[string]any:
		return false
	}
	return true
}

// Any reports whether f holds of v, or of a value inside of it.
func Any(v any, f func(any) bool) bool {
	if f(v) {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if Any(e, f) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return Any(e, f) })
	}
	return false
}

// Count returns how many values v is, with those inside of it.
func Count(v any) (n int) {
	Any(v, func(any) bool { n++; return false })
	return n
}

// At returns the value at a path of names; nil when there is none.
func At(v any, path []string) any {
	for _, name := range path {
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			if len(at) == 0 {
				return nil
			}
			v = at[0] // items of a list are mostly alike
		default:
			return nil
		}
	}
	return v
}

// Known returns a copy of v without what is known only when a step starts.
func Known(v any) any {
	switch v := v.(type) {
	case Invalid, Deferred:
		return nil
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			if !IsUnsaid(e) {
				m[k] = Known(e)
			}
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = Known(e)
		}
		return l
	}
	return v
}
