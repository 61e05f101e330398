package examples_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// runCatalog runs the catalog's plan, and with what goes wrong in catalogs.
func runCatalog(t *testing.T, lab *labtest.Lab) {
	t.Helper()
	requireApart(t, runPlan(t, lab, "kgst/plan.yaml", lab1("kgst"), "team-a"))

	// A chart that its repository does not have: the hook that looks for it says so, and
	// the repository is named from the release's values.
	in := lab1("kgst")
	in.Set = []string{"namespaces=[team-b]", "templates=[nothing:1.2.3]", "prefix=my-", "repository={name: own, url: oci://r.example/charts}"}
	t.Cleanup(func() {
		uninstall(t, lab, "nothing", "team-b")
		gone(t, lab, "team-b")
	})
	_, err := try(t, lab, "kgst/plan.yaml", in)
	require.ErrorContains(t, err, `step "catalog[team-b]/template[nothing]": chart nothing:1.2.3 is not in oci://r.example/charts: `)
	require.Regexp(t, `(?s)Job has reached the specified backoff limit.*said last:\n.*chart nothing:1.2.3 does not exist or cannot be pulled`, err.Error())

	// A template that KCM finds invalid: the wait for it tells why.
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: invalid}
steps:
  - name: template
    apply:
      objects:
        - apiVersion: k0rdent.mirantis.com/v1beta1
          kind: ServiceTemplate
          metadata: {name: invalid, namespace: team-b}
          spec: {helm: {chartSpec: {chart: minio, version: 14.1.2, sourceRef: {kind: HelmRepository, name: absent}}}}
  - name: valid
    needs: [template]
    timeout: 5s
    wait: {resource: servicetemplate/invalid, namespace: team-b, for: ready}
`), 0o600))
	_, err = try(t, lab, file, load.Options{})
	require.ErrorContains(t, err, `step "valid": timed out after 5s waiting for servicetemplate/invalid to be ready: servicetemplate/invalid: failed to get source: `)
}

// requireApart wants that no two releases which share a repository were at work at
// the same time, and that some waited for that.
func requireApart(t *testing.T, events []runner.Event) {
	t.Helper()
	var x runner.Execution
	waited := false
	for _, e := range events {
		x.Apply(e)
		waited = waited || e.WaitsFor != ""
		has := map[string]string{}
		for _, s := range x.In(runner.StateRunning, runner.StateHolding, runner.StateRetrying) {
			if g := s.ConcurrencyGroup; g != "" {
				require.Empty(t, has[g], "%s is at work beside it", s.Name)
				has[g] = s.Name
			}
		}
	}
	require.True(t, waited)
}

// try runs a plan that may fail.
func try(t *testing.T, lab *labtest.Lab, file string, in load.Options) (*runner.Execution, error) {
	t.Helper()
	p, err := load.File(file, in)
	require.NoError(t, err)
	s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test"})
	require.NoError(t, err)
	defer s.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the plan takes too long"))
	defer cancel()
	r := runner.Runner{Resolve: s.Resolve}
	return r.Run(ctx, p)
}
