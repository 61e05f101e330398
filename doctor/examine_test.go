package doctor_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/doctor"
	"github.com/kplan-dev/kplan/internal/labtest"
)

// An examination sends reads only, whatever it finds.
func TestExamineOnlyReads(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	s := newState(t, lab)
	s.send(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE-hook}
webhooks:
- name: hook.example.com
  clientConfig: {service: {name: hook, namespace: NAMESPACE}}
  rules: [{apiGroups: [NAMESPACE.example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`)
	var (
		mu     sync.Mutex
		writes []string
	)
	behind := lab.Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet {
			mu.Lock()
			writes = append(writes, r.Method+" "+r.URL.Path)
			mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
	c, err := doctor.New(behind.Config(t))
	require.NoError(t, err)

	r, err := doctor.Examine(t.Context(), c, doctor.Checks())

	require.NoError(t, err)
	require.NotEmpty(t, r.Findings)
	require.Empty(t, writes)
}
