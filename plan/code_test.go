package plan_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
)

// Each class of fault has its code, which no rewording of its message changes.
func TestCodes(t *testing.T) {
	const head = "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: demo}\n"
	const wait = "wait: {resource: pod/a, for: create}"
	cases := map[plan.Code]string{
		plan.CodeSyntax:       "a: [",
		plan.CodeUnknownField: head + "steps: [{name: a, need: [], " + wait + "}]",
		plan.CodeMissingField: head,
		plan.CodeWrongType:    head + "steps: 1",
		plan.CodeUnknownValue: head + "steps: [{name: a, apply: {files: [x], wait: soon}}]",
		plan.CodeUnknownName:  head + "steps: [{name: a, needs: [b], " + wait + "}]",
		plan.CodeDuplicate:    head + "steps: [{name: a, " + wait + "}, {name: a, " + wait + "}]",
		plan.CodeCycle:        head + "steps: [{name: a, needs: [b], " + wait + "}, {name: b, needs: [a], " + wait + "}]",
		plan.CodeVariable:     head + "vars: {x: {}}\nsteps: [{name: a, " + wait + "}]",
		plan.CodeExpression:   head + "steps: [{name: a, description: '${{ vars.', " + wait + "}]",
		plan.CodeInvalid:      head + "steps: [{name: A, " + wait + "}]",
	}
	for _, code := range plan.Codes() {
		t.Run(string(code), func(t *testing.T) {
			require.NotEmpty(t, code.About())
			var err error
			if code == plan.CodeFile {
				_, err = plan.Load(filepath.Join(t.TempDir(), "none.yaml"), plan.Options{})
			} else {
				require.Contains(t, cases, code, "a plan that breaks it")
				_, err = plan.Parse("plan.yaml", []byte(cases[code]), plan.Options{})
			}
			faults, ok := errors.AsType[plan.Diagnostics](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, code, faults[0].Code, err.Error())
		})
	}
}
