package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/steps"
)

// largePlan has n steps: Certificates, what uses their Secrets, waits, CRDs, objects
// of their kinds, and charts from afar with values.
func largePlan(n int) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: large}\nvars: {v: {default: 1.2.3}}\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&b, "- name: s%d\n", i)
		if i >= 13 {
			fmt.Fprintf(&b, "  needs: [s%d]\n", i-13)
		}
		switch i % 6 {
		case 0:
			fmt.Fprintf(&b, "  apply: {objects: [{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: c%d}, spec: {secretName: s%d}}]}\n", i, i)
		case 1:
			fmt.Fprintf(&b, "  apply: {objects: [{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {volumes: [{secret: {secretName: s%d}}]}}]}\n", i, i-1)
		case 2:
			fmt.Fprintf(&b, "  wait: {resource: certificate/c%d, for: condition=Ready}\n", i-2)
		case 3:
			fmt.Fprintf(&b, "  helm: {chart: oci://r.example/c, version: \"${{vars.v}}\", values: {a: %d}}\n", i)
		case 4:
			fmt.Fprintf(&b, "  apply: {objects: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {group: g%d, names: {kind: K}}}]}\n", i)
		case 5:
			fmt.Fprintf(&b, "  apply: {objects: [{apiVersion: g%d/v1, kind: K, metadata: {name: k%d}}]}\n", i-1, i)
		}
	}
	return []byte(b.String())
}

// The bar is one second for 10,000 steps, of which most break a rule.
func BenchmarkRun(b *testing.B) {
	p, err := plan.Parse("p.yaml", largePlan(10_000), plan.Inputs{})
	if err != nil {
		b.Fatal(err)
	}
	in, _ := steps.LintInput(b.Context(), p, true) // no chart can be had
	b.ReportAllocs()
	for b.Loop() {
		if n := len(lint.Run(in)); n < 1000 {
			b.Fatal("only", n, "findings")
		}
	}
}
