package steps_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// Clusters of the user's own kubeconfig fail of the same kinds as those of Secrets.
func TestFailuresOfConnections(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code int
		body string
		want steps.Failure
	}{
		"credentials that are refused": {http.StatusUnauthorized, "{}", steps.FailureRefused},
		"a server that is ill":         {http.StatusServiceUnavailable, "", steps.FailureUnreachable},
		"a server of another kind":     {http.StatusOK, "<html>", steps.FailureUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte(test.body))
			}))
			t.Cleanup(server.Close)
			flags := genericclioptions.NewConfigFlags(false)
			flags.KubeConfig, flags.APIServer = new("/dev/null"), &server.URL
			_, err := cluster.Connect(t.Context(), flags, "kplan/test")
			require.Error(t, err)
			require.Equal(t, test.want, steps.FailureOf(err), "%v", err)
		})
	}
}
