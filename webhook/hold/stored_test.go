package hold

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A create whose answer could not be converted was done.
func TestTransportDoesNotCreateTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		method  string
		want    int
	}{
		"what was sent is not converted":   {"example.io/v1", http.MethodPost, http.StatusCreated},
		"what was stored is not converted": {"example.io/v2", http.MethodPost, http.StatusInternalServerError},
		"what was read is not converted":   {"example.io/v2", http.MethodGet, http.StatusCreated},
		"an apply that may be done twice":  {"example.io/v2", http.MethodPatch, http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := `conversion webhook for ` + tc.version + `, Kind=Widget failed: Post "https://w.ns.svc:443/convert?timeout=30s": EOF`
				server := &apiServer{answer: readyAfter(5*time.Millisecond, text)}
				tr := &Transport{Base: server, Gate: NewGate(nil)}
				req := create(t.Context(), t, "w1")
				req.Method = tc.method

				resp, err := tr.RoundTrip(req)

				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, tc.want, resp.StatusCode)
			})
		})
	}
}
