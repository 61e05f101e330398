package removal_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// What is in a namespace is known only if all API services tell their kinds: one that
// is down may have objects there. A kind that came just now counts too.
func TestContentsAreWhole(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		down, late bool
		want       []string
	}{
		"all tell":                     {want: []string{"ConfigMap/ns/a", "Thing/ns/b"}},
		"one kind came meanwhile":      {late: true, want: []string{"ConfigMap/ns/a", "Thing/ns/b"}},
		"an API service does not tell": {down: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var there atomic.Bool
			there.Store(!tt.late)
			session := sessionOn(t, func(path string) (int, string) {
				switch path {
				case "/version":
					return 200, `{"gitVersion":"v1.36.3"}`
				case "/api":
					return 200, `{"kind":"APIVersions","versions":["v1"]}`
				case "/api/v1":
					return 200, resources("v1", "configmaps", "ConfigMap")
				case "/apis":
					if !there.Load() {
						return 200, `{"kind":"APIGroupList","groups":[]}`
					}
					const version = `{"groupVersion":"example.io/v1","version":"v1"}`
					return 200, `{"kind":"APIGroupList","groups":[{"name":"example.io","versions":[` + version + `],"preferredVersion":` + version + `}]}`
				case "/apis/example.io/v1":
					if tt.down {
						return 503, `{"kind":"Status","status":"Failure","code":503,"reason":"ServiceUnavailable","message":"service unavailable"}`
					}
					return 200, resources("example.io/v1", "things", "Thing")
				case "/api/v1/namespaces/ns/configmaps":
					return 200, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"a","namespace":"ns"}}]}`
				case "/apis/example.io/v1/namespaces/ns/things":
					return 200, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"b","namespace":"ns"}}]}`
				}
				return 404, "{}"
			})
			_, _, err := session.Cluster.Serves(t.Context())
			require.NoError(t, err)
			there.Store(true)

			found, err := removal.Contents(t.Context(), session, "ns")

			if tt.down {
				require.ErrorContains(t, err, "example.io/v1")
				require.Contains(t, runner.HintOf(err), "kubectl get apiservices")
				return
			}
			require.NoError(t, err)
			var got []string
			for _, o := range found {
				got = append(got, o.ID())
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func resources(gv, plural, kind string) string {
	return fmt.Sprintf(`{"kind":"APIResourceList","groupVersion":%q,"resources":[{"name":%q,"kind":%q,"namespaced":true,"verbs":["list","delete"]}]}`, gv, plural, kind)
}

// sessionOn is a session with a server that gives answers by path.
func sessionOn(t *testing.T, answer func(path string) (int, string)) *cluster.Session {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, body := answer(r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}],
		clusters: [{name: c, cluster: {server: "`+server.URL+`"}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`), 0o600))
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &path
	api, err := cluster.Connect(t.Context(), flags, "test")
	require.NoError(t, err)
	session, err := api.Session(cluster.Options{})
	require.NoError(t, err)
	return session
}
