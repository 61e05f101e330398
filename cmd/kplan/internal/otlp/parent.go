package otlp

import (
	"encoding/hex"
	"strings"
)

// Parent is the span of another program that a run is part of, as W3C Trace Context
// writes it. The zero value is none.
type Parent struct {
	trace [16]byte
	span  [8]byte
	flags byte
	state string
}

// ParentOf reads TRACEPARENT and TRACESTATE of the environment. What is not of their form
// is as if it were not there, as the W3C recommendation has it.
func ParentOf(getenv func(string) string) Parent {
	p, ok := parse(strings.TrimSpace(getenv("TRACEPARENT")))
	if !ok {
		return Parent{}
	}
	if state := strings.TrimSpace(getenv("TRACESTATE")); plainState(state) {
		p.state = state
	}
	return p
}

// Known reports whether there is a parent.
func (p Parent) Known() bool { return p.trace != [16]byte{} }

// Sampled reports whether the parent's trace is recorded.
func (p Parent) Sampled() bool { return p.flags&1 != 0 }

// parse reads version-trace-span-flags, each in lower case hexadecimal. Versions after 00
// may have more behind the flags.
func parse(s string) (Parent, bool) {
	parts := strings.Split(s, "-")
	if len(parts) < 4 || parts[0] == "ff" || parts[0] == "00" && len(parts) > 4 || strings.ToLower(s) != s {
		return Parent{}, false
	}
	var version, flags [1]byte
	var p Parent
	for i, into := range [][]byte{version[:], p.trace[:], p.span[:], flags[:]} {
		if len(parts[i]) != 2*len(into) {
			return Parent{}, false
		}
		if _, err := hex.Decode(into, []byte(parts[i])); err != nil {
			return Parent{}, false
		}
	}
	p.flags = flags[0]
	return p, p.Known() && p.span != [8]byte{}
}

// maxState is how many bytes of tracestate everybody has to pass on.
const maxState = 512

// plainState reports whether a tracestate can be passed on: it is short, and printable.
func plainState(s string) bool {
	return len(s) <= maxState && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
