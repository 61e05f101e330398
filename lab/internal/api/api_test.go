package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReady(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		code   int
		fault  string
	}{
		"ready":                {answer: `{"kind":"Node","status":{"conditions":[{"type":"Ready","status":"True"}]}}`},
		"not ready":            {answer: `{"kind":"Node","status":{"conditions":[{"type":"Ready","status":"False"}]}}`, fault: "/x: not ready yet"},
		"no conditions":        {answer: `{"kind":"Node"}`, fault: "/x: not ready yet"},
		"absent":               {answer: `gone`, code: 404, fault: "/x: status 404: gone"},
		"empty list":           {answer: `{"kind":"PodList","items":[]}`, fault: "/x: none yet"},
		"list, all ready":      {answer: `{"kind":"PodList","items":[{"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`},
		"list, one is waiting": {answer: `{"kind":"PodList","items":[{"status":{"conditions":[{"type":"Ready","status":"True"}]}},{}]}`, fault: "/x: not ready yet"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if test.code != 0 {
					w.WriteHeader(test.code)
				}
				_, _ = w.Write([]byte(test.answer))
			}))
			defer server.Close()
			client := &Client{server: server.URL, http: server.Client()}
			err := client.Ready(t.Context(), "/x")
			if test.fault == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.fault)
		})
	}
}
