package ui

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/clean"
)

func FuzzInertJSONMeansTheSame(f *testing.F) {
	f.Add("##[error]x ###[[")
	f.Add("\u009b31m \u202e \x7f \U000e0041 \u2028 <&> \"\\")
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(s))
		inert := InertJSON(b.Bytes())
		require.Equal(t, -1, bytes.IndexFunc(inert, clean.Perilous))
		require.NotContains(t, string(inert), "##[")
		var want, got string
		require.NoError(t, json.Unmarshal(b.Bytes(), &want))
		require.NoError(t, json.Unmarshal(inert, &got))
		require.Equal(t, want, got)
	})
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                          "0ms",
		0:                                     "0ms",
		36 * time.Millisecond:                 "36ms",
		100 * time.Millisecond:                "0.1s",
		640 * time.Millisecond:                "0.6s",
		9949 * time.Millisecond:               "9.9s",
		9951 * time.Millisecond:               "10s",
		59*time.Second + 499*time.Millisecond: "59s",
		59*time.Second + 500*time.Millisecond: "1m00s",
		185 * time.Second:                     "3m05s",
		time.Hour + 2*time.Minute:             "1h02m",
		30 * time.Hour:                        "30h00m",
	} {
		require.Equal(t, want, Brief(d), d.String())
	}
}

func TestProblem(t *testing.T) {
	var b bytes.Buffer
	Problem(&b, Options{}, "step \"a\": one\ntwo\x1b[2J\n", "do this\nor that")
	require.Equal(t, "error: step \"a\": one\n  two\nhint: do this\n  or that\n", b.String())
	b.Reset()
	Problem(&b, Options{Colour: true}, "x", "")
	require.Equal(t, "\x1b[31;1merror:\x1b[0m x\n", b.String())
}
