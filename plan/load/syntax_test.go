package load_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

// faultsOf gives the positions and messages of what is wrong with a plan.
func faultsOf(t *testing.T, src string, in load.Options) []string {
	t.Helper()
	_, err := load.Parse("p.yaml", []byte(src), in)
	var ds document.Diagnostics
	require.True(t, errors.As(err, &ds), "the plan has no fault")
	var lines []string
	for _, d := range ds {
		lines = append(lines, fmt.Sprintf("%d:%d: %s", d.Line, d.Col, d.Message))
	}
	return lines
}

// The position is where a reader finds the mistake, which is not what the YAML
// parsers say.
func TestSyntaxPosition(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"a: 1\nsteps:\n  - name: a\n    helm: {chart: [x\n  - name: b\n", "5:3: did not find expected ',' or ']'"},
		{"a: 1\nsteps:\n  - name: a\n   helm:\n      chart: x\n", "4:4: did not find expected '-' indicator"},
		{"a: 1\nsteps:\n  - name: a\n\thelm: 2\n", "4:1: a tab cannot indent YAML"},
		{"a: 1\nsteps:\n  - name: a: b\n    x: 1\n", "3:3: mapping values are not allowed in this context"},
		{"a: 1\nb:\n  c: 1\n d: 2\n", "4:2: did not find expected key"},
		{"a: 1\nb: \"x\nc: 2\n", "2:1: found unexpected end of stream"},
		{"a: 1\nb: x\nc\nd: 1\n", "3:1: could not find expected ':'"},
		{"a: 1\nb: @x\n", "2:1: found character that cannot start any token"},
		{"a: 1\nb: *x\n", "2:4: there is no anchor &x before its alias"},
		{"a: 1\nb: {a: 1\n", "2:1: did not find expected ',' or '}'"},
		{"a: 1\nb: [1, 2]]\nc: 1\n", "2:1: did not find expected key"},
		{"a: 1\nb: \"\\q\"\n", "2:1: found unknown escape character"},
		{"a: 1\n- b\n", "2:1: did not find expected key"},
		{"a: 1\nb: - x\n", "2:1: block sequence entries are not allowed in this context"},
		{"a: }\n", "1:1: did not find expected node content"},
	} {
		require.Equal(t, []string{c.want}, faultsOf(t, c.src, load.Options{}), "%q", c.src)
	}
}

// What is no text never reaches a parser.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"empty":         {"", "0:0: the file is empty"},
		"blank":         {" \n\t\n", "0:0: the file is empty"},
		"latin-1":       {"kind: Plan\nname: caf\xe9\n", "2:10: the file is not UTF-8 text: byte 0xe9"},
		"UTF-16":        {"\xff\xfek\x00i\x00", "0:0: the file is UTF-16 text"},
		"escape":        {"kind: Plan # \x1b[31m\n", "1:14: the file has the control character U+001B"},
		"NUL":           {"kind: Plan\x00\n", "1:11: the file has the control character U+0000"},
		"C1":            {"kind: \u0085\u009b31m\n", "2:1: the file has the control character U+009B"},
		"large":         {"# " + strings.Repeat("x", 1<<20), "0:0: the file is larger than 1048576 bytes, which is the most that is read"},
		"many values":   {"[" + strings.Repeat("a,", 400_000) + "a]", "0:0: the file has more than 300000 values"},
		"deep nesting":  {strings.Repeat("[", 20_000), "0:0: exceeded max depth of 10000"},
		"alone a brace": {"{", "1:1: did not find expected node content"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{c.want}, faultsOf(t, c.src, load.Options{}))
		})
	}
}

// A byte order mark and Windows line breaks are harmless.
func TestReadable(t *testing.T) {
	const good = "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: a}\nsteps:\n  - name: a\n    wait: {resource: pod/x, for: create}\n"
	for _, src := range []string{good, "\ufeff" + good, strings.ReplaceAll(good, "\n", "\r\n"), good + "---\n", "---\n" + good + "...\n"} {
		p, err := load.Parse("p.yaml", []byte(src), load.Options{})
		require.NoError(t, err)
		require.Len(t, p.Steps, 1)
	}
	// The excerpt does not carry the carriage return to the terminal.
	_, err := load.Parse("p.yaml", []byte(strings.ReplaceAll(good+"x: 1\n", "\n", "\r\n")), load.Options{})
	require.NotContains(t, err.Error(), "\r")
}
