package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/plan/load"
)

// large is a plan of n steps with their objects: Certificates, pods that use their
// Secrets, waits, CRDs, objects of their kinds, and charts from afar with values.
func large(b *testing.B, n int) lint.Input {
	b.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: large}\nvars: {v: {default: ^1.2.3}}\nsteps:\n")
	in := lint.Input{Objects: map[string][]lint.Object{}}
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		fmt.Fprintf(&text, "- name: %s\n", name)
		if i >= 13 {
			fmt.Fprintf(&text, "  needs: [s%d]\n", i-13)
		}
		object := map[string]any{"metadata": map[string]any{"name": name}}
		switch i % 6 {
		case 0:
			object["apiVersion"], object["kind"], object["spec"] = "cert-manager.io/v1", "Certificate", map[string]any{"secretName": name}
		case 1:
			volume := map[string]any{"secret": map[string]any{"secretName": fmt.Sprintf("s%d", i-1)}}
			object["apiVersion"], object["kind"], object["spec"] = "v1", "Pod", map[string]any{"volumes": []any{volume}}
		case 2:
			fmt.Fprintf(&text, "  wait: {resource: certificate/s%d, for: condition=Ready}\n", i-2)
			continue
		case 3:
			fmt.Fprintf(&text, "  helm: {chart: oci://r.example/c, version: \"${{vars.v}}\", values: {a: %d}}\n", i)
			continue
		case 4:
			object["apiVersion"], object["kind"] = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
			object["spec"] = map[string]any{"group": name, "names": map[string]any{"kind": "K"}}
		case 5:
			object["apiVersion"], object["kind"] = fmt.Sprintf("s%d/v1", i-1), "K"
		}
		text.WriteString("  apply: {files: [a.yaml]}\n")
		in.Objects[name] = []lint.Object{{Fields: object}}
	}
	p, err := load.Parse("p.yaml", []byte(text.String()), load.Options{})
	if err != nil {
		b.Fatal(err)
	}
	in.Plan = p
	return in
}

// The bar is one second for 10,000 steps, half of which break a rule.
func BenchmarkRun(b *testing.B) {
	in := large(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(lint.Run(in)); n < 4000 {
			b.Fatal("only", n, "findings")
		}
	}
}
