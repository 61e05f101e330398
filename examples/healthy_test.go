package examples_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/doctor"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
)

// requireHealthy examines what a plan has installed: nothing is wrong with it. What other
// examples install beside it does not count.
func requireHealthy(t *testing.T, lab *labtest.Lab, p *plan.Plan, namespaces ...string) {
	t.Helper()
	for _, s := range p.Steps {
		if s.Helm != nil {
			namespaces = append(namespaces, s.Helm.Namespace)
		}
	}
	own := configurations(t, lab, namespaces)
	mine := func(f finding.Finding) bool {
		parts := strings.Split(f.Object, "/")
		if len(parts) == 3 {
			return slices.Contains(namespaces, parts[1])
		}
		return slices.Contains(own, f.Object)
	}
	var found []finding.Finding
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Second) { // a CA bundle may be replaced, and a pod start again
		c, err := doctor.New(lab.Config(t))
		require.NoError(t, err)
		r, err := doctor.Examine(t.Context(), c, doctor.Checks())
		require.NoError(t, err)
		found = slices.DeleteFunc(r.Findings, func(f finding.Finding) bool { return !mine(f) })
		if len(found) == 0 || time.Now().After(deadline) {
			break
		}
	}
	require.Empty(t, found)
}

// configurations are the webhook configurations of the releases of namespaces.
func configurations(t *testing.T, lab *labtest.Lab, namespaces []string) []string {
	t.Helper()
	api := lab.Clientset(t).AdmissionregistrationV1()
	validating, err := api.ValidatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	mutating, err := api.MutatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	add := func(kind string, o metav1.ObjectMeta) {
		if slices.Contains(namespaces, o.Annotations["meta.helm.sh/release-namespace"]) {
			names = append(names, kind+"/"+o.Name)
		}
	}
	for _, c := range validating.Items {
		add("ValidatingWebhookConfiguration", c.ObjectMeta)
	}
	for _, c := range mutating.Items {
		add("MutatingWebhookConfiguration", c.ObjectMeta)
	}
	return names
}
