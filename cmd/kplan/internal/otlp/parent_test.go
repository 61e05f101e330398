package otlp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// getenv is an environment of what a test says.
func getenv(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestParentOf(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for name, test := range map[string]struct {
		traceparent    string
		known, sampled bool
	}{
		"sampled":                        {"00-" + trace + "-" + span + "-01", true, true},
		"not sampled":                    {"00-" + trace + "-" + span + "-00", true, false},
		"with space around":              {" 00-" + trace + "-" + span + "-01\n", true, true},
		"other flags":                    {"00-" + trace + "-" + span + "-ff", true, true},
		"a later version with more":      {"01-" + trace + "-" + span + "-01-what-comes", true, true},
		"this version with more":         {"00-" + trace + "-" + span + "-01-more", false, false},
		"the version that is none":       {"ff-" + trace + "-" + span + "-01", false, false},
		"nothing":                        {"", false, false},
		"upper case":                     {"00-0AF7651916CD43DD8448EB211C80319C-" + span + "-01", false, false},
		"a trace of zeros":               {"00-00000000000000000000000000000000-" + span + "-01", false, false},
		"a span of zeros":                {"00-" + trace + "-0000000000000000-01", false, false},
		"too short":                      {"00-" + trace[2:] + "-" + span + "-01", false, false},
		"too long":                       {"00-" + trace + "00-" + span + "-01", false, false},
		"no hexadecimal":                 {"00-" + trace[:31] + "x-" + span + "-01", false, false},
		"something that only looks like": {"a-b-c-d", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := ParentOf(getenv(map[string]string{"TRACEPARENT": test.traceparent, "TRACESTATE": "a=1"}))
			require.Equal(t, test.known, p.Known())
			require.Equal(t, test.sampled, p.Sampled())
			if test.known {
				require.Equal(t, "a=1", p.state)
			} else {
				require.Equal(t, Parent{}, p)
			}
		})
	}
}

// TestParentStateIsPlain passes on no tracestate that OTLP or an HTTP header could not have.
func TestParentStateIsPlain(t *testing.T) {
	for _, state := range []string{"a=\x1b[31m", "a=\xff", string(make([]byte, maxState+1))} {
		p := ParentOf(getenv(map[string]string{"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "TRACESTATE": state}))
		require.True(t, p.Known())
		require.Empty(t, p.state)
	}
}

func FuzzParentOf(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more")
	f.Fuzz(func(t *testing.T, s string) {
		p := ParentOf(getenv(map[string]string{"TRACEPARENT": s}))
		child := NewIDs("run", p).Traceparent("step")
		again := ParentOf(getenv(map[string]string{"TRACEPARENT": child}))
		require.True(t, again.Known(), "what is passed on is well-formed: %s", child)
		if p.Known() {
			require.Equal(t, p.trace, again.trace)
			require.Equal(t, p.Sampled(), again.Sampled())
		}
	})
}
