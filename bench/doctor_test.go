package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// BenchmarkDoctor measures `kplan doctor` on a cluster with many operators, from the start
// of the process to its end: 300 CustomResourceDefinitions of 20 kB and 100 webhooks.
// The bar is 2 s. `kubectl get` of the same definitions and configurations, which is the
// least that somebody reads by hand, stands beside it.
func BenchmarkDoctor(b *testing.B) {
	const definitions, hooks = 300, 100
	lab := labtest.Own(b, "test-doctor")
	client, err := dynamic.NewForConfig(lab.Config(b))
	require.NoError(b, err)
	words := strings.Repeat("what a field of the specification is for, in the words of its operator. ", 250)
	for i := range definitions {
		make1(b, client, "apiextensions.k8s.io", "customresourcedefinitions", fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things%[1]d.bench.kplan.dev}
spec:
  group: bench.kplan.dev
  scope: Namespaced
  names: {plural: things%[1]d, singular: thing%[1]d, kind: Thing%[1]d}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: %[2]q}}}]
`, i, words))
	}
	for i := range hooks {
		make1(b, client, "admissionregistration.k8s.io", "validatingwebhookconfigurations", fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook-%[1]d}
webhooks:
- name: hook-%[1]d.bench.kplan.dev
  clientConfig: {service: {name: hook-%[1]d, namespace: default}}
  rules: [{apiGroups: [bench.kplan.dev], apiVersions: [v1], operations: [CREATE], resources: [things%[1]d]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`, i))
	}
	kplan, kubectl := labtest.Build(b, "../cmd/kplan"), labtest.Kubectl(b)
	for _, tool := range []struct {
		name string
		line []string
	}{
		{"kplan", []string{kplan, "doctor", "--fail-on", "never"}},
		{"kubectl-get", []string{kubectl, "get", "customresourcedefinitions,validatingwebhookconfigurations", "-o", "yaml"}},
	} {
		b.Run(tool.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), tool.line[0], tool.line[1:]...)
				cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.Kubeconfig)
				start := time.Now()
				out, err := cmd.CombinedOutput()
				took = append(took, time.Since(start))
				require.NoError(b, err, string(out[:min(len(out), 2000)]))
			}
			slices.Sort(took)
			median := took[len(took)/2]
			b.ReportMetric(float64(median.Milliseconds()), "p50-ms")
			if tool.name == "kplan" && median > 2*time.Second {
				b.Errorf("kplan doctor takes %s, the bar is 2 s", median)
			}
		})
	}
}

// make1 creates an object without a namespace.
func make1(b *testing.B, client dynamic.Interface, group, resource, text string) {
	b.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(b, yaml.Unmarshal([]byte(text), &o.Object))
	ctx, cancel := context.WithTimeoutCause(b.Context(), time.Minute, fmt.Errorf("making %s took too long", o.GetName()))
	defer cancel()
	gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
	_, err := client.Resource(gvr).Create(ctx, o, metav1.CreateOptions{})
	require.NoError(b, err)
}
