package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// What the server serves is asked for no longer than anybody wants to know.
func TestServesEndsWithItsContext(t *testing.T) {
	hangs := make(chan struct{})
	hang := sync.OnceFunc(func() { close(hangs) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/version" {
			_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
			return
		}
		hang()
		<-req.Context().Done()
	}))
	t.Cleanup(server.Close)
	flags := genericclioptions.NewConfigFlags(false)
	*flags.KubeConfig = kubeconfig(t, server.URL)
	cluster, err := Connect(t.Context(), flags, "test")
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-hangs
		cancel(nil)
	}()

	_, _, err = cluster.Serves(ctx)

	require.ErrorIs(t, err, context.Canceled)
}

// kubeconfig writes one whose cluster is at server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "`+server+`"}}]
users: [{name: me, user: {token: secret-token}}]
contexts:
- {name: here, context: {cluster: here, user: me, namespace: app}}
- {name: dangling, context: {cluster: nowhere, user: me}}
current-context: here
`), 0o600))
	return path
}

func flagsFor(path, kubeContext string) *genericclioptions.ConfigFlags {
	f := genericclioptions.NewConfigFlags(false)
	f.KubeConfig = &path
	f.Context = &kubeContext
	return f
}

func TestConnectTellsWhatIsWrong(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	answering := func(code int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	stranger := httptest.NewTLSServer(nil)
	t.Cleanup(stranger.Close)

	for name, tt := range map[string]struct {
		flags     *genericclioptions.ConfigFlags
		err, hint string
	}{
		"a kubeconfig that does not exist": {
			flagsFor("/does/not/exist", ""), "kubeconfig cannot be read: stat /does/not/exist: no such file or directory",
			"give the path of an existing file by --kubeconfig or KUBECONFIG",
		},
		"a kubeconfig that is not one": {
			flagsFor(write(t, "no: [kubeconfig"), ""), "kubeconfig cannot be read: error loading config file",
			"check the file that --kubeconfig or KUBECONFIG names; without them it is ~/.kube/config",
		},
		"no kubeconfig at all": {
			genericclioptions.NewConfigFlags(false), "no cluster is configured",
			"set KUBECONFIG or --kubeconfig to the kubeconfig of a cluster; kplan also reads ~/.kube/config",
		},
		"a context that is not in it": {
			flagsFor(kubeconfig(t, "http://x"), "prod"), `kubeconfig has no context "prod"`, "the kubeconfig has: dangling, here",
		},
		"a context without its cluster": {
			flagsFor(kubeconfig(t, "http://x"), "dangling"), `kubeconfig has no cluster "nowhere", which its context "dangling" names`,
			"pick another context with --context, or mend the kubeconfig",
		},
		"nobody there": {
			flagsFor(kubeconfig(t, closed.URL), ""), "cluster " + closed.URL + " cannot be reached: dial tcp " + strings.TrimPrefix(closed.URL, "http://") + ": connect: connection refused",
			"nobody listens at this address: is the cluster running, and is the kubeconfig of today?",
		},
		"another authority": {
			flagsFor(kubeconfig(t, stranger.URL), ""), "cluster " + stranger.URL + " cannot be reached: tls: failed to verify certificate: x509: certificate signed by unknown authority",
			"the certificate is not of the authority in the kubeconfig: was the cluster made anew? fetch its kubeconfig again",
		},
		"credentials that are refused": {
			flagsFor(kubeconfig(t, answering(401, "{}")), ""), "does not accept the credentials in the kubeconfig",
			"they may have expired: log in again, then check with kubectl auth whoami",
		},
		"a server that is ill": {
			flagsFor(kubeconfig(t, answering(503, "")), ""), `answered "503 Service Unavailable" when asked for its version`,
			"is this the address of a Kubernetes API server, and is it healthy? try kubectl get --raw /livez",
		},
		"a server of another kind": {
			flagsFor(kubeconfig(t, answering(200, "<html>")), ""), "answered, but not as a Kubernetes API server does",
			"check the cluster's server in the kubeconfig",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Connect(t.Context(), tt.flags, "kplan/test")
			require.ErrorContains(t, err, tt.err)
			require.NotContains(t, err.Error(), "secret-token")
			if tt.hint != "" {
				require.Equal(t, tt.hint, runner.HintOf(err))
			}
		})
	}
}

func TestAbout(t *testing.T) {
	for want, c := range map[string]*Access{
		"context kind-x, https://127.0.0.1:6443": {context: "kind-x", config: &rest.Config{Host: "https://127.0.0.1:6443"}},
		"context prod, https://api.example.io/k8s/clusters/c-1": {
			context: "prod", config: &rest.Config{Host: "https://admin:secret@api.example.io/k8s/clusters/c-1?token=secret"},
		},
		"http://[2001:db8::1]:8080": {config: &rest.Config{Host: "[2001:db8::1]:8080"}},
	} {
		require.Equal(t, want, c.About())
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A server that takes the connection and says nothing must not keep the user waiting.
func TestConnectIsBounded(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	cause := &runner.TimeoutError{After: time.Minute}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
	defer cancel()
	_, err = Connect(ctx, flagsFor(kubeconfig(t, "http://"+silent.Addr().String()), ""), "kplan/test")
	require.ErrorIs(t, err, error(cause), "an outer bound that is shorter holds too")
	require.ErrorContains(t, err, "cannot be reached")
}

func TestConnect(t *testing.T) {
	lab := labtest.ControlPlane(t)
	var agents []string
	c, err := Connect(t.Context(), lab.Flags(), "kplan/test")
	require.NoError(t, err)
	require.Equal(t, "default", c.Namespace())
	require.Contains(t, c.About(), c.Config().Host)
	require.InDelta(t, -1, c.Config().QPS, 0, "the server has priority and fairness")

	s, err := c.Session(Options{Wrap: func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			agents = append(agents, r.Method+" "+r.URL.Path+" "+r.UserAgent())
			return rt.RoundTrip(r)
		})
	}})
	require.NoError(t, err)
	for arg, want := range map[string]schema.GroupVersionResource{
		"deployment":          {Group: "apps", Version: "v1", Resource: "deployments"},
		"deploy":              {Group: "apps", Version: "v1", Resource: "deployments"},
		"Deployments.apps":    {Group: "apps", Version: "v1", Resource: "deployments"},
		"deployments.v1.apps": {Group: "apps", Version: "v1", Resource: "deployments"},
		"cm":                  {Version: "v1", Resource: "configmaps"},
		"crd":                 {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	} {
		m, err := c.MappingFor(t.Context(), arg)
		require.NoError(t, err, arg)
		require.Equal(t, want, m.Resource, arg)
	}
	_, err = c.MappingFor(t.Context(), "unicorns.example.io")
	require.True(t, meta.IsNoMatchError(err), "%v", err)
	require.Empty(t, agents, "discovery does not go through a step's transport")

	g := s.Getter("release-ns")
	ns, _, err := g.ToRawKubeConfigLoader().Namespace()
	require.NoError(t, err)
	require.Equal(t, "release-ns", ns)
	one, err := g.ToRESTMapper()
	require.NoError(t, err)
	other, err := s.Getter("").ToRESTMapper()
	require.NoError(t, err)
	require.Equal(t, one, other, "one mapper per cluster")
	config, err := g.ToRESTConfig()
	require.NoError(t, err)
	require.NotSame(t, s.Config, config)
	_, err = s.Clientset.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"GET /api/v1/namespaces/default kplan/test"}, agents)
}

// A credential plugin is asked for new credentials once the API server has refused
// those that it gave: client-go hands the first refusal on.
func TestConnectAsksForCredentialsAgain(t *testing.T) {
	lab := labtest.ControlPlane(t)
	token, err := lab.Clientset(t).CoreV1().ServiceAccounts(lab.Namespace(t)).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		stale, calls int
		refused      bool
	}{
		"that were stale":      {stale: 1, calls: 2},
		"that are stale again": {stale: 10, calls: 3, refused: true}, // the second refusal makes client-go ask too
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plugin := filepath.Join(dir, "plugin")
			require.NoError(t, os.WriteFile(plugin, fmt.Appendf(nil, `#!/bin/sh
echo >>%[1]s/calls
token=%[2]s
[ $(wc -l <%[1]s/calls) -gt %[3]d ] || token=stale
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"'$token'"}}'
`, dir, token.Status.Token, tt.stale), 0o700))
			config, err := clientcmd.LoadFromFile(lab.Kubeconfig)
			require.NoError(t, err)
			for _, user := range config.AuthInfos {
				*user = clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
					APIVersion: "client.authentication.k8s.io/v1", Command: plugin, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
				}}
			}
			path := filepath.Join(dir, "kubeconfig")
			require.NoError(t, clientcmd.WriteToFile(*config, path))

			_, err = Connect(t.Context(), flagsFor(path, ""), "kplan/test")
			if tt.refused {
				require.True(t, runner.IsPermanent(err), "%v", err)
				require.ErrorContains(t, err, "does not accept the credentials in the kubeconfig")
			} else {
				require.NoError(t, err)
			}
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			require.NoError(t, err)
			require.Len(t, calls, tt.calls)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
