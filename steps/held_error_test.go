package steps_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// Whatever ends a step while requests are held, its error tells of them first:
// here a hook does not end, that would give their webhook its CA.
func TestTheErrorNamesWhatIsHeld(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)

	run := install(t, lab, ns, "{listenDelay: 1s, certificate: {mode: hook}, operator: {certDelay: 10m, lyingHealth: true}, "+
		"webhook: {mutating: false}, guarded: {gadgets: 1, widgets: 2}}", "timeout: 25s")

	var timeout *runner.TimeoutError
	require.ErrorAs(t, run.err, &timeout)
	require.Regexp(t, `^step "race": timed out after 25s waiting for webhook "validate.race.lab.kplan.dev" \(Service `+ns+"/"+ns+
		`-webhook\) to judge Widget/`+ns+"/"+ns+`-\d: .*connection refused`, run.err.Error())
	require.NotEmpty(t, runner.HintOf(run.err))
}
