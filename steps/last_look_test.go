package steps_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// Behind a proxy that swallows the events of watches a step that is out of time
// looks once more: what came meanwhile is no timeout.
func TestLastLookBehindASilentProxy(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	for name, tt := range map[string]struct {
		comes bool
		list  string
	}{
		"it came": {true, "\n- {name: w, timeout: 8s, wait: {resource: configmap/c, namespace: NS, for: create}}"},
		"it came, and another step follows": {true, `
- {name: w, timeout: 8s, wait: {resource: configmap/c, namespace: NS, for: create}}
- {name: after, needs: [w], apply: {namespace: NS, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}]}}`},
		"it did not": {false, "\n- {name: w, timeout: 8s, wait: {resource: configmap/c, namespace: NS, for: create}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			maps := lab.Clientset(t).CoreV1().ConfigMaps(ns)
			var once sync.Once
			proxied := lab.Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.URL.Query().Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/configmaps") {
					next.ServeHTTP(w, r)
					return
				}
				if tt.comes {
					once.Do(func() {
						_, err := maps.Create(r.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
						if err != nil {
							t.Error(err)
						}
					})
				}
				labtest.Swallow(w, r)
			})

			out := runPlan(t, proxied, ns, tt.list)

			if tt.comes {
				require.NoError(t, out.err)
				return
			}
			timeout := (*runner.TimeoutError)(nil)
			require.ErrorAs(t, out.err, &timeout)
			require.ErrorContains(t, out.err, "not found", "the last look found nothing")
		})
	}
}
