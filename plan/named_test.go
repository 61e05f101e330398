package plan_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
)

// charts is example with some of its steps of kind helm, and one of kind wait.
func charts() *plan.Plan {
	p := example()
	for i := range p.Steps {
		switch p.Steps[i].Name {
		case "operator", "secrets[a]", "monitoring/prometheus", "monitoring/rules":
			p.Steps[i].Helm = &plan.Helm{}
		case "webhook":
			p.Steps[i].Wait = &plan.Wait{}
		default:
			p.Steps[i].Apply = &plan.Apply{}
		}
	}
	return p
}

func TestNamed(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		want  []string
	}{
		"nothing":                       {nil, nil},
		"a step":                        {[]string{"operator"}, []string{"operator"}},
		"two":                           {[]string{"operator", "monitoring/rules"}, []string{"monitoring/rules", "operator"}},
		"a group, some of it":           {[]string{"secrets"}, []string{"secrets[a]"}},
		"an include, with what it has":  {[]string{"monitoring"}, []string{"monitoring/prometheus", "monitoring/rules"}},
		"what a group has, by its name": {[]string{"secrets[a]"}, []string{"secrets[a]"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := charts().Named("--flag", plan.KindHelm, c.names...)
			require.NoError(t, err)
			require.Equal(t, c.want, slices.Sorted(maps.Keys(got)))
		})
	}
	require.Equal(t, []string{"operator", "secrets", "secrets[a]", "monitoring", "monitoring/prometheus", "monitoring/rules"},
		charts().StepNamesOf(plan.KindHelm))
}

func TestNamedFaults(t *testing.T) {
	none := charts()
	none.Steps = none.Steps[2:3]
	for name, c := range map[string]struct {
		plan        *plan.Plan
		name        string
		error, hint string
	}{
		"a step that is not there": {charts(), "operatr", `--flag: there is no step "operatr"`, `did you mean "operator"?`},
		"a step of another kind": {
			charts(), "webhook", `--flag: the step "webhook" is of kind wait, not helm`,
			"it takes: operator, secrets, secrets[a], monitoring, monitoring/prometheus and 1 more",
		},
		"a plan without any": {none, "webhook", `--flag: the step "webhook" is of kind wait, not helm`, "the plan has no helm steps"},
		"an item of another kind": {
			charts(), "secrets[b/c]", `--flag: the step "secrets[b/c]" is of kind apply, not helm`,
			"it takes: operator, secrets, secrets[a], monitoring, monitoring/prometheus and 1 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.plan.Named("--flag", plan.KindHelm, c.name)
			require.EqualError(t, err, c.error)
			var hinted interface{ Hint() string }
			require.ErrorAs(t, err, &hinted)
			require.Equal(t, c.hint, hinted.Hint())
		})
	}
	group := picks("many[a]", "many[b]")
	_, err := group.Named("--flag", plan.KindHelm, "many")
	require.EqualError(t, err, `--flag: no step of "many" is a helm step`)
}
