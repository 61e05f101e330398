package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/runner"
)

// A kubeconfig may say how to log in, but not what to run or read for it.
func TestFromSecretRefuses(t *testing.T) {
	kubeconfig := func(cluster, user string) string {
		return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: " + cluster + "}]\nusers: [{name: u, user: " + user + "}]\n"
	}
	server := "{server: 'https://127.0.0.1:1'}"
	for name, tt := range map[string]struct{ kubeconfig, err, hint string }{
		"a program": {
			kubeconfig(server, "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/evil, interactiveMode: Never}}"),
			`the kubeconfig would run the program "/bin/evil" for its credentials; nothing runs because a plan says so`,
			"give such a kubeconfig by --kubeconfig or KUBECONFIG, and name its context in the plan; or use a token or a client certificate",
		},
		"an auth provider": {
			kubeconfig(server, "{auth-provider: {name: gcp}}"), `the kubeconfig uses the auth provider "gcp"`, "use a token or a client certificate",
		},
		"a file with a token": {
			kubeconfig(server, "{tokenFile: /etc/shadow}"), `the kubeconfig refers to the file "/etc/shadow" in tokenFile; one from a Secret may not`,
			"put what is in the file into the kubeconfig: kubectl config view --flatten --minify --raw",
		},
		"a file with a certificate": {kubeconfig(server, "{client-certificate: a.crt}"), `file "a.crt" in client-certificate`, ""},
		"a file with a key":         {kubeconfig(server, "{client-key: a.key}"), `file "a.key" in client-key`, ""},
		"a file with an authority":  {kubeconfig("{server: 'https://x', certificate-authority: ca.crt}", "{}"), `file "ca.crt" in certificate-authority`, ""},
		"something else":            {"s3cr3t: [", "Secret a/b: there is no kubeconfig in it", "is it the right key? kubeconfig_secret.key says which one is read"},
		"nothing":                   {"", "Secret a/b: the kubeconfig has no contexts", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := FromSecret(t.Context(), "regional", "", Secret{Name: "Secret a/b", Read: func(context.Context) ([]byte, error) {
				return []byte(tt.kubeconfig), nil
			}})

			require.ErrorContains(t, err, tt.err)
			require.NotContains(t, err.Error(), "s3cr3t")
			if tt.hint != "" {
				require.Equal(t, tt.hint, runner.HintOf(err))
			}
		})
	}
}

// A plan may name a kubeconfig file, but not one that runs something.
func TestFromFileRefusesPlugins(t *testing.T) {
	path := write(t, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: 'https://x'}}],
  users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}}}]}`)

	_, err := FromFile(path, "")

	require.ErrorContains(t, err, `the kubeconfig would run the program "aws"`)
	_, err = FromFile(path, "prod")
	require.ErrorContains(t, err, `kubeconfig has no context "prod"`)
	_, err = FromFile("/does/not/exist", "")
	require.EqualError(t, err, "there is no kubeconfig /does/not/exist")
}

// rotating is an API server that accepts one token at a time.
type rotating struct {
	token   atomic.Value // the one that is accepted
	mu      sync.Mutex
	bodies  []string
	refused int
}

func (s *rotating) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	if req.Header.Get("Authorization") != "Bearer "+s.token.Load().(string) {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
}

// tokens is a Secret with a kubeconfig whose token can be changed.
type tokens struct {
	server string
	token  atomic.Value
	reads  atomic.Int32
	err    error
}

func (s *tokens) read(context.Context) ([]byte, error) {
	s.reads.Add(1)
	if s.err != nil && s.reads.Load() > 1 {
		return nil, s.err
	}
	return []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: app}}],
  clusters: [{name: c, cluster: {insecure-skip-tls-verify: true, server: "` + s.server + `"}}], users: [{name: u, user: {token: ` + s.token.Load().(string) + `}}]}`), nil
}

func rotated(t *testing.T) (*rotating, *tokens, *Cluster) {
	t.Helper()
	server := &rotating{}
	server.token.Store("old")
	listener := httptest.NewTLSServer(server) // client-go sends no credentials without TLS
	t.Cleanup(listener.Close)
	secret := &tokens{server: listener.URL}
	secret.token.Store("old")
	access, err := FromSecret(t.Context(), "regional", "", Secret{Name: "Secret kcm-system/regional", Read: secret.read})
	require.NoError(t, err)
	cluster, err := access.Connect(t.Context(), "kplan/test")
	require.NoError(t, err)
	require.Equal(t, "app", cluster.Namespace())
	require.EqualValues(t, 1, secret.reads.Load())
	return server, secret, cluster
}

func send(t *testing.T, c *Cluster, body string) error {
	t.Helper()
	s, err := c.Session(Options{})
	if err != nil {
		return err
	}
	return s.Clientset.CoreV1().RESTClient().Post().AbsPath("/x").Body([]byte(body)).Do(t.Context()).Error()
}

// Requests that are refused because the credentials were renewed are sent again
// with the new ones. Nobody sees it, and the Secret is read once for all of them.
func TestCredentialsAreReadAgain(t *testing.T) {
	server, secret, cluster := rotated(t)
	server.token.Store("new")
	secret.token.Store("new")

	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_ = send(t, cluster, "{}") // what came is looked at below
		})
	}
	wg.Wait()

	require.Len(t, server.bodies, 21, "the request for the version came first")
	for _, body := range server.bodies[1:] {
		require.Equal(t, "{}", body)
	}
	require.EqualValues(t, 2, secret.reads.Load())
}

// Credentials that are refused although they were read again are an error that
// another attempt can mend.
func TestCredentialsThatStayRefused(t *testing.T) {
	server, secret, cluster := rotated(t)
	server.token.Store("new")

	err := send(t, cluster, "{}")

	refused := (*RefusedError)(nil)
	require.ErrorAs(t, err, &refused)
	require.EqualError(t, refused, "cluster regional ("+secret.server+") does not accept the credentials in the kubeconfig of Secret kcm-system/regional")
	require.Equal(t, "they were revoked or have expired: whatever makes the Secret must renew it", runner.HintOf(err))
	require.False(t, runner.IsPermanent(err))
	require.EqualValues(t, 2, secret.reads.Load())
	require.Equal(t, 1, server.refused, "the same credentials are not tried twice")
	cluster.heard.Store(0)
	require.EqualError(t, cluster.Reach(t.Context()), refused.Error(), "also when the cluster is asked whether it is there")

	secret.token.Store("new")
	require.NoError(t, send(t, cluster, "{}"))
}

// A Secret that cannot be read again says so.
func TestCredentialsThatCannotBeReadAgain(t *testing.T) {
	server, secret, cluster := rotated(t)
	server.token.Store("new")
	secret.err = errors.New("mothership is down")

	err := send(t, cluster, "{}")

	require.ErrorContains(t, err, "which cannot be read again: mothership is down")
}

// A kubeconfig that names another server by now is for a new connection.
func TestClusterHasMoved(t *testing.T) {
	server, secret, cluster := rotated(t)
	server.token.Store("new")
	secret.server = strings.Replace(secret.server, "127.0.0.1", "localhost", 1)

	require.Error(t, send(t, cluster, "{}"))

	moved := (*MovedError)(nil)
	require.ErrorAs(t, cluster.Reach(t.Context()), &moved)
}

// Whether a cluster is there is asked only when it was not heard of lately.
func TestReach(t *testing.T) {
	server, _, cluster := rotated(t)
	require.NoError(t, cluster.Reach(t.Context()))
	require.Len(t, server.bodies, 1)

	cluster.heard.Store(0)
	require.NoError(t, cluster.Reach(t.Context()))
	require.Len(t, server.bodies, 2)
}
