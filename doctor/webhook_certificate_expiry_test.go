package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Who wrote a certificate last says whether it is renewed: programs of the cluster
// do that, clients do not.
func TestWriter(t *testing.T) {
	t.Parallel()
	at := func(minute int, manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Time: &metav1.Time{Time: time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)}, FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const secret = `{"f:data":{"f:tls.crt":{}}}`
	for _, test := range []struct {
		name    string
		entries []metav1.ManagedFieldsEntry
		writer  string
		written bool
	}{
		{"no managed fields", nil, "", false},
		{"a chart's own certificate", []metav1.ManagedFieldsEntry{at(1, "helm", secret)}, "helm", true},
		{"kubectl create", []metav1.ManagedFieldsEntry{at(1, "kubectl-create", secret)}, "kubectl-create", true},
		{"cert-manager", []metav1.ManagedFieldsEntry{at(1, "cert-manager-certificates-issuing", secret)}, "cert-manager-certificates-issuing", false},
		{"a chart's Secret that its controller fills", []metav1.ManagedFieldsEntry{at(1, "helm", secret), at(2, "cert-controller", secret)}, "cert-controller", false},
		{"a controller's Secret that Helm has labelled since", []metav1.ManagedFieldsEntry{at(1, "kyverno", secret), at(2, "helm", `{"f:metadata":{}}`)}, "kyverno", false},
	} {
		writer := writerOf(test.entries, "f:tls.crt")
		require.Equal(t, test.writer, writer, test.name)
		require.Equal(t, test.written, written(writer), test.name)
	}
}
