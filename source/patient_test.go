package source

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type sending func(*http.Request) (*http.Response, error)

func (f sending) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A server says nothing until it has all of what is sent, however long that takes; then
// it has its time to answer.
func TestUploadsTakeAsLongAsTheyTake(t *testing.T) {
	for name, c := range map[string]struct {
		silent time.Duration
		err    string
	}{
		"it answers":   {silence - time.Second, ""},
		"it is silent": {silence + time.Second, "the server said nothing for 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &patient{next: sending(func(req *http.Request) (*http.Response, error) {
					for b := make([]byte, 1); ; time.Sleep(silence / 2) {
						if _, err := req.Body.Read(b); err != nil {
							break
						}
					}
					select {
					case <-time.After(c.silent):
						return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody}, nil
					case <-req.Context().Done():
						return nil, req.Context().Err()
					}
				})}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://registry/x", bytes.NewReader(make([]byte, 10)))
				require.NoError(t, err)

				resp, err := p.RoundTrip(req)

				if c.err != "" {
					require.EqualError(t, err, c.err)
					return
				}
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}
