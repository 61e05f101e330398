package scrub_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/scrub"
)

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "",
		"the certificate in Secret tls expired at 2026-01-01T00:00:00Z": "the certificate in Secret tls expired at 2026-01-01T00:00:00Z",
		"login failed: password=hunter2, user=a":                        "login failed: password=(hidden), user=a",
		`{"api_key": "a b", "user": "c"}`:                               `{"api_key": (hidden), "user": "c"}`,
		"dial postgres://shop:hunter2@db:5432/shop":                     "dial postgres://(hidden)@db:5432/shop",
		"Authorization: Bearer abcdef123456":                            "Authorization: Bearer (hidden)",
		"Authorization: abcdef123456":                                   "Authorization: (hidden)",
		"Error accepting authorization: 404 Not Found":                  "Error accepting authorization: 404 Not Found",
		"token eyJhbGciOiJSUzI1NiJ9.eyJhIjoxfQ.c2ln is not valid":       "token (hidden) is not valid",
		"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----":  "(hidden)",
		"key " + strings.Repeat("a1", 20):                               "key (hidden)",
		"image sha256:" + strings.Repeat("a1", 32):                      "image sha256:" + strings.Repeat("a1", 32),
	} {
		require.Equal(t, want, scrub.Text(text))
	}
}
