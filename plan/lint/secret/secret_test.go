package secret_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan/lint/secret"
)

func TestIsLikely(t *testing.T) {
	for _, c := range []struct {
		path, text string
		likely     bool
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
		require.Equal(t, c.likely, secret.IsLikely(strings.Split(c.path, "."), c.text), "%s: %s", c.path, c.text)
	}
}

func TestNamed(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "db.Password": true, "pass": true, "pw": true, "ROOT_PW": true, "rootPass": true, "credentials": true, "cookie_secret": true,
		"api-key": true, "existingSecret": false, "secretName": false, "passthrough": false, "bypass": false, "compass": false, "publicKey": false,
		"gpw": false, "tokens": false, "tokenTTL": false,
	} {
		require.Equal(t, want, secret.Named(name), name)
	}
}

func TestIn(t *testing.T) {
	for text, want := range map[string]string{
		"-----BEGIN PRIVATE KEY-----\nMHc":          "a private key",
		"ghp_0123456789abcdef":                      "a token",
		"key AKIAIOSFODNN7EXAMPLE":                  "a token",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln": "a token",
		"postgres://app:hunter2@db/app":             "an address with a password",
		"https://hooks.slack.com/services/T0/B0/x":  "an address that lets whoever knows it write messages",
		"run --db-password=hunter2":                 "an option with a secret",
		"--token hunter2":                           "an option with a secret",
		"[db]\npassword = hunter2":                  "a file with a secret",

		"postgres://app:$(PASSWORD)@db/app": "",
		"https://registry.example:5000/a@b": "",
		"--password=$(PASSWORD)":            "",
		"--token-file=/run/token":           "",
		"a: b\npassword: ${PASSWORD}":       "",
		"a: b\nexistingSecret: db":          "",
		"monkey business":                   "",
		"task-0123456789012345678901234":    "",
	} {
		require.Equal(t, want, secret.In(text), text)
	}
}
