package data

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/clean"
)

func FuzzInertMeansTheSame(f *testing.F) {
	f.Add("##[error]x ###[[")
	f.Add("\u009b31m \u202e \x7f \U000e0041 \u2028 <&> \"\\")
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(s))
		inert := Inert(b.Bytes())
		require.Equal(t, -1, bytes.IndexFunc(inert, clean.Perilous))
		require.NotContains(t, string(inert), "##[")
		var want, got string
		require.NoError(t, json.Unmarshal(b.Bytes(), &want))
		require.NoError(t, json.Unmarshal(inert, &got))
		require.Equal(t, want, got)
	})
}
