package apply

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// writes notes the requests that change something.
type writes struct {
	mu   sync.Mutex
	seen []string
}

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet {
			w.mu.Lock()
			w.seen = append(w.seen, req.Method+" "+req.URL.Path)
			w.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

func (w *writes) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

func TestASecondApplyOfAnyKindWritesNothing(t *testing.T) {
	w := &writes{}
	f := onLab(t, w.wrap)
	text, err := os.ReadFile("testdata/kinds.yaml")
	require.NoError(t, err)
	t.Cleanup(func() { f.removeOutside(t, string(text)) })
	r, err := f.apply(t, string(text))
	require.NoError(t, err)
	total := strings.Count(string(text), "\n---\n") + 1
	require.Equal(t, total, r.result(t).Done)
	require.Len(t, w.take(), total)

	r, err = f.apply(t, string(text))
	require.NoError(t, err)
	require.Empty(t, w.take())
	require.True(t, r.result(t).Unchanged)
}

// removeOutside deletes what of the objects is in no namespace of the test's.
func (f fixture) removeOutside(t *testing.T, text string) {
	t.Helper()
	objects, err := manifest.Read(t.Context(), plan.Step{Dir: t.TempDir(), Apply: &plan.Apply{Files: []string{f.write(t, text)}}}, nil)
	require.NoError(t, err)
	ctx := context.WithoutCancel(t.Context())
	for _, o := range objects {
		m, err := f.session.Cluster.Mapping(ctx, o.GroupVersionKind())
		if err != nil {
			continue // of a definition that is gone
		}
		if m.Scope.Name() == meta.RESTScopeNameRoot {
			_ = f.session.Resource(m, "").Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		}
	}
}

func TestWhatIsNotAsAppliedIsSent(t *testing.T) {
	w := &writes{}
	f := onLab(t, w.wrap)
	const manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {a: b}}, data: {x: one, v: two}}"
	maps := f.lab.Clientset(t).CoreV1().ConfigMaps(f.namespace)
	for _, tt := range []struct {
		name     string
		patch    string // of somebody else, before the step
		manifest string
		want     string
		writes   int
	}{
		{"first", "", manifest, "1 created", 1},
		{"again", "", manifest, "1 unchanged", 0},
		{"somebody adds a field", `{"data": {"z": "three"}}`, manifest, "1 unchanged", 0},
		{"somebody changes a field", `{"data": {"x": "other"}}`, manifest, "1 configured", 1},
		{"somebody takes a field away", `{"data": {"v": null}}`, manifest, "1 configured", 1},
		{"somebody sets the same", `{"data": {"x": "one"}}`, manifest, "1 unchanged", 0},
		{"a field is left out", "", strings.Replace(manifest, ", v: two", "", 1), "1 configured", 1},
		{"and again", "", strings.Replace(manifest, ", v: two", "", 1), "1 unchanged", 0},
	} {
		if tt.patch != "" {
			_, err := maps.Patch(t.Context(), "a", types.MergePatchType, []byte(tt.patch), metav1.PatchOptions{FieldManager: "somebody"})
			require.NoError(t, err)
		}
		r, err := f.apply(t, tt.manifest, func(a *plan.Apply) { a.ForceConflicts = true })
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.want, r.result(t).Message, tt.name)
		require.Len(t, w.take(), tt.writes, tt.name)
	}
	cm, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"x": "one", "z": "three"}, cm.Data)
}
