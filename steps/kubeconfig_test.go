package steps_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// elsewhere is an API server that takes one token, and whose kubeconfig somebody has.
type elsewhere struct {
	*httptest.Server
	token atomic.Value // the one that is taken
	has   atomic.Value // the one of the kubeconfig
	user  atomic.Value // of the kubeconfig, in place of the token's
	reads atomic.Int32
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	e := &elsewhere{}
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+e.token.Load().(string):
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/version":
			_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(e.Close)
	e.token.Store("first")
	e.has.Store("first")
	e.user.Store("")
	return e
}

func (e *elsewhere) kubeconfig(context.Context) ([]byte, error) {
	e.reads.Add(1)
	user := e.user.Load().(string)
	if user == "" {
		user = "{token: " + e.has.Load().(string) + "}"
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: %s}]}`, e.URL, base64.StdEncoding.EncodeToString(ca), user), nil
}

func (e *elsewhere) raw(t *testing.T) []byte {
	t.Helper()
	b, err := e.kubeconfig(t.Context())
	require.NoError(t, err)
	return b
}

func (e *elsewhere) connect(t *testing.T, text, cluster string, k steps.Kubeconfig) error {
	t.Helper()
	k.Name, k.Read = "Secret prod/east-kubeconfig", e.kubeconfig
	s, err := steps.New(t.Context(), steps.Config{
		Plan: loadPlan(t, text), Flags: genericclioptions.NewConfigFlags(false), UserAgent: "test",
		Kubeconfigs: map[string]steps.Kubeconfig{cluster: k},
	})
	if err != nil {
		return err
	}
	s.Close()
	return nil
}

const onTarget = `
clusters: {target: {context: does-not-exist}}
steps: [{name: waits, cluster: target, wait: {resource: configmap/x, for: create}}]
`

// A kubeconfig that is given takes the place of what the plan says of a cluster, and of the
// command line.
func TestKubeconfigs(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	server, ca, err := steps.Pin(e.raw(t), "")
	require.NoError(t, err)
	require.Equal(t, e.URL, server)
	require.Len(t, ca, 64)
	for name, test := range map[string]struct{ plan, cluster string }{
		"of a cluster of the plan": {onTarget, "target"},
		"of steps which name none": {strings.ReplaceAll(onTarget, "cluster: target, ", ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, e.connect(t, test.plan, test.cluster, steps.Kubeconfig{Server: server, CA: ca}))
		})
	}
	require.ErrorContains(t, e.connect(t, onTarget, "target", steps.Kubeconfig{Context: "other"}), `Secret prod/east-kubeconfig: kubeconfig has no context "other"`)
}

func TestKubeconfigIsReadAgain(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	e.token.Store("second")
	reads := e.reads.Load()

	err := e.connect(t, onTarget, "target", steps.Kubeconfig{})

	require.ErrorContains(t, err, "does not accept the credentials in the kubeconfig of Secret prod/east-kubeconfig")
	require.Equal(t, steps.FailureRefused, steps.FailureOf(err))
	require.Equal(t, reads+2, e.reads.Load())
}

func TestKubeconfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	for user, want := range map[string]string{
		"{exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}}": `would run the program "aws"`,
		"{tokenFile: /etc/shadow}": `refers to the file "/etc/shadow"`,
	} {
		e.user.Store(user)
		err := e.connect(t, onTarget, "target", steps.Kubeconfig{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "Secret prod/east-kubeconfig: ")
		require.Equal(t, steps.FailureRefused, steps.FailureOf(err))
		require.True(t, runner.IsPermanent(err))
	}
}

// Who may write a kubeconfig cannot lead a run to another cluster.
func TestKubeconfigLeadsElsewhere(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t)
	server, ca, err := steps.Pin(e.raw(t), "")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		pinned steps.Kubeconfig
		want   string
	}{
		"to another server":       {steps.Kubeconfig{Server: "https://10.0.0.1:6443", CA: ca}, "leads to " + e.URL + ", and not to https://10.0.0.1:6443 as before"},
		"with other certificates": {steps.Kubeconfig{Server: server, CA: strings.Repeat("0", 64)}, "trusts other certificates for " + e.URL + " than before"},
	} {
		t.Run(name, func(t *testing.T) {
			err := e.connect(t, onTarget, "target", test.pinned)
			require.ErrorContains(t, err, "Secret prod/east-kubeconfig "+test.want)
			require.Equal(t, steps.FailureMoved, steps.FailureOf(err))
			require.True(t, runner.IsPermanent(err))
			require.NotEmpty(t, runner.HintOf(err))
		})
	}
	e.Close()
	err = e.connect(t, onTarget, "target", steps.Kubeconfig{Server: server, CA: ca})
	require.Equal(t, steps.FailureUnreachable, steps.FailureOf(err), "%v", err)
}
