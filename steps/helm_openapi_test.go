package steps_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// The documents of an API server's versions are megabytes, and Helm reads them only to
// find that the server validates fields itself. That is so by its version for Kubernetes'
// own kinds, and for those that have a definition.
func TestHelmStepReadsNoDocumentsOfTheAPI(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dropDefinitions(t, lab, "things."+ns+".kplan.dev")
	create(t, lab, definition(ns, "things", "Thing", "thing"))
	var documents atomic.Int64
	behind := lab.Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/openapi/") {
			documents.Add(1)
		}
		next.ServeHTTP(w, r)
	})
	chart := chartOf(t, map[string]string{
		"objects.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n---\n{apiVersion: " + ns + ".kplan.dev/v1, kind: Thing, metadata: {name: thing}}\n",
	})

	for _, engine := range []string{"helm3", "helm4"} {
		out := runPlan(t, behind, ns, "\n- name: chart\n  helm: {chart: "+chart+", release: NS-"+engine+", namespace: NS, engine: "+engine+", take_ownership: true}\n")

		require.NoError(t, out.err)
		require.Zero(t, documents.Load(), engine)
	}
}
