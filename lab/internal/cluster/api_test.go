package cluster

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/lab/internal/pki"
)

func TestReady(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		code   int
		fault  string
	}{
		"absent":      {answer: `gone`, code: 404, fault: "/x: "},
		"none":        {answer: `{"kind":"PodList","items":[]}`, fault: "/x: none yet"},
		"ready":       {answer: `{"kind":"PodList","items":[{"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`},
		"not ready":   {answer: `{"kind":"NodeList","items":[{"status":{"conditions":[{"type":"Ready","status":"False"}]}}]}`, fault: "/x: not ready yet"},
		"one waiting": {answer: `{"kind":"PodList","items":[{"status":{"conditions":[{"type":"Ready","status":"True"}]}},{}]}`, fault: "/x: not ready yet"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if test.code != 0 {
					w.WriteHeader(test.code)
				}
				_, _ = w.Write([]byte(test.answer))
			}))
			defer server.Close()
			lab := &Lab{Folder: Folder{t.TempDir()}}
			require.NoError(t, writeKubeconfig("lab", lab.Kubeconfig(), server.URL, "admin", nil, pki.Pair{}))
			client, err := lab.client()
			require.NoError(t, err)
			err = client.ready(t.Context(), "/x")
			if test.fault == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.fault)
		})
	}
}
