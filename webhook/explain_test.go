package webhook

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testdata/explanations.golden has what API servers said, and what a newcomer is
// told of it.
func TestExplainGolden(t *testing.T) {
	var b strings.Builder
	for _, s := range append(recorded(t), wordings(t)...) {
		f := ClassifyError(errors.New(s.text))
		if f.Class == None {
			continue
		}
		fmt.Fprintf(&b, "## %s\n%s\n= %s\n", s.title, f.Cause, f.Explain())
	}
	const file = "testdata/explanations.golden"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

// Every cause that is known is explained, and no fault but a denial is left
// without words.
func TestExplainAll(t *testing.T) {
	for _, v := range append(append([]causeRule{}, unansweredCauses...), answeredCauses...) {
		require.NotEmpty(t, Explain(v.text), v.text)
	}
	for _, s := range recorded(t) {
		f := ClassifyError(errors.New(s.text))
		require.Equal(t, f.Class == Denied || f.Class == None, f.Explain() == "", "%s: %s", s.title, f.Cause)
	}
}

// Explanations are one short clause each, as hints are.
func TestExplanationStyle(t *testing.T) {
	for _, e := range explanations {
		require.NotRegexp(t, `^[A-Z]|[.!]$|\n`, e.words, e.text)
		require.LessOrEqual(t, len(e.words), 170, e.text)
	}
}

// No entry hides another one.
func TestEachExplanationIsReached(t *testing.T) {
	for _, e := range explanations {
		require.Equal(t, e.words, Explain(e.text), e.text)
	}
}

// Where a Secret is what is waited for, people are told how late a pod sees it.
func TestExplainTellsHowLateSecretsAre(t *testing.T) {
	for _, cause := range []string{
		"tls: failed to verify certificate: x509: certificate signed by unknown authority",
		"the certificate in Secret ns/tls is not of an authority in the CA bundle",
		"remote error: tls: internal error",
		"0 of 1 endpoints ready; pod a-1 cannot start: Secret tls, which it mounts, does not exist",
		`FailedMount: MountVolume.SetUp failed for volume "tls" : secret "tls" not found`,
	} {
		require.Regexp(t, "kubelet.* up to two minutes", Explain(cause), cause)
	}
}

// What is nearest to the fault explains most.
func TestExplain(t *testing.T) {
	for cause, want := range map[string]string{
		`0 of 1 endpoints ready; pod a-1 is in ImagePullBackOff, image "a:b": not found`:                     noImage,
		"0 of 1 endpoints ready; pod a-1 is in CrashLoopBackOff: container c ended with 1: panic: no config": crashing,
		"0 of 1 endpoints ready; pod a-1 runs, but its container c is not ready":                             unready,
		"no endpoints; pod a-1 cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu.":            "no node has enough of that left for what the pod requests",
		"no endpoints; no pod has the labels that the Service selects":                                       "the Service leads nowhere yet: its pods were not made, or they have other labels than it looks for",
		"no endpoints":                               noPod,
		"Service ns/s does not exist":                noService,
		`service "x" not found`:                      noService,
		`secret "x" not found`:                       "",
		"the CA bundle expired at 2026-01-01T00:00Z": expired,
		"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time A is before B": early,
		"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time A is after B":  expired,
		"it was not called yet": "",
		"":                      "",
	} {
		require.Equal(t, want, Explain(cause), cause)
	}
	require.Empty(t, Reading{Rung: Backed, State: Ready, Reason: "1 of 2 endpoints ready"}.Explain())
}
