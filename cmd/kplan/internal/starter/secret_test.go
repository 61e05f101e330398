package starter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsSecret(t *testing.T) {
	for _, c := range []struct {
		path, text string
		secret     bool
	}{
		{"adminPassword", "x", true},
		{"global.postgresql.auth.password", "x", true},
		{"secrets.data.session", "x", true},
		{"env.API_KEY", "x", true},
		{"s3.secretAccessKey", "x", true},
		{"webhook.address", "https://hooks.slack.com/services/T0/B0/x", true},
		{"tls.key", "-----BEGIN EC PRIVATE KEY-----\nx", true},
		{"registry", "https://bot:x@registry.example", true},
		{"config", "[server]\npassword = hunter2\n", true},
		{"who", "ghp_0123456789", true},

		{"adminPassword", "", false},
		{"password", "$(PASSWORD)", false},
		{"auth.existingSecret", "grafana", false},
		{"auth.secretName", "grafana", false},
		{"token.ttl", "1h", false},
		{"imagePullSecrets.name", "regcred", false},
		{"imagePullSecrets", "regcred", false},
		{"config", "password: ${PASSWORD}", false},
		{"image.tag", "1.2.3", false},
		{"monkey", "x", false},
		{"registry", "https://registry.example:5000/a", false},
	} {
		require.Equal(t, c.secret, isSecret(strings.Split(c.path, "."), c.text), "%s: %s", c.path, c.text)
	}
}
