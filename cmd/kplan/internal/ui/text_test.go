package ui

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProblem(t *testing.T) {
	var b bytes.Buffer
	Problem(&b, Options{}, "step \"a\": one\ntwo\x1b[2J\n", "do this\nor that")
	require.Equal(t, "error: step \"a\": one\n  two\nhint: do this\n  or that\n", b.String())
	b.Reset()
	Problem(&b, Options{Colour: true}, "x", "")
	require.Equal(t, "\x1b[31;1merror:\x1b[0m x\n", b.String())
}
