package load_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

// Each class of fault has its code, which no rewording of its message changes.
func TestCodes(t *testing.T) {
	const head = "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: demo}\n"
	const wait = "wait: {resource: pod/a, for: create}"
	cases := map[document.Code]string{
		document.CodeSyntax:       "a: [",
		document.CodeUnknownField: head + "steps: [{name: a, need: [], " + wait + "}]",
		document.CodeMissingField: head,
		document.CodeWrongType:    head + "steps: 1",
		document.CodeUnknownValue: head + "steps: [{name: a, apply: {files: [x], wait: soon}}]",
		document.CodeUnknownName:  head + "steps: [{name: a, needs: [b], " + wait + "}]",
		document.CodeDuplicate:    head + "steps: [{name: a, " + wait + "}, {name: a, " + wait + "}]",
		document.CodeCycle:        head + "steps: [{name: a, needs: [b], " + wait + "}, {name: b, needs: [a], " + wait + "}]",
		document.CodeVariable:     head + "vars: {x: {}}\nsteps: [{name: a, " + wait + "}]",
		document.CodeExpression:   head + "steps: [{name: a, description: '${{ vars.', " + wait + "}]",
		document.CodeInvalid:      head + "steps: [{name: A, " + wait + "}]",
	}
	for _, c := range document.Codes {
		code := c.Code
		t.Run(string(code), func(t *testing.T) {
			require.NotEmpty(t, c.About)
			var err error
			if code == document.CodeFile {
				_, err = load.File(filepath.Join(t.TempDir(), "none.yaml"), load.Options{})
			} else {
				require.Contains(t, cases, code, "a plan that breaks it")
				_, err = load.Parse("plan.yaml", []byte(cases[code]), load.Options{})
			}
			faults, ok := errors.AsType[document.Diagnostics](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, code, faults[0].Code, err.Error())
		})
	}
}
