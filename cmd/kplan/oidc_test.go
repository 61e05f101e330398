package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// lists are what kplan webhooks reads of a cluster that has no webhooks.
var lists = map[string]string{
	"customresourcedefinitions":       "CustomResourceDefinitionList",
	"mutatingwebhookconfigurations":   "MutatingWebhookConfigurationList",
	"validatingwebhookconfigurations": "ValidatingWebhookConfigurationList",
}

// A kubeconfig with the auth provider oidc works: a token that has expired is renewed
// once with the refresh token, the API server gets the new one, and the kubeconfig keeps
// both for the next command.
func TestOIDCLogin(t *testing.T) {
	var renewals, refused, served atomic.Int32
	fresh := idToken(t, time.Now().Add(time.Hour))
	issuer := oidcIssuer(t, fresh, &renewals)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+fresh {
			refused.Add(1)
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`, http.StatusUnauthorized)
			return
		}
		served.Add(1)
		switch list := lists[path.Base(r.URL.Path)]; {
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
		case list == "":
			http.NotFound(w, r)
		default:
			fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{},"items":[]}`, strings.TrimPrefix(path.Dir(r.URL.Path), "/apis/"), list)
		}
	}))
	t.Cleanup(server.Close)

	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, clientcmd.WriteToFile(oidcKubeconfig(t, server, issuer), file))
	for range 2 {
		var stdout, stderr bytes.Buffer
		code := execute([]string{"kplan", "webhooks", "--kubeconfig", file}, strings.NewReader(""), &stdout, &stderr)
		require.Zero(t, code, "%s%s", stdout.String(), stderr.String())
	}

	assert.EqualValues(t, 1, renewals.Load(), "the second command has the token of the first")
	assert.Zero(t, refused.Load(), "no request goes out with the token that has expired")
	assert.Positive(t, served.Load())
	kept, err := clientcmd.LoadFromFile(file)
	require.NoError(t, err)
	login := kept.AuthInfos["me"].AuthProvider.Config
	assert.Equal(t, fresh, login["id-token"])
	assert.Equal(t, "second", login["refresh-token"], "the issuer gave another one, and takes each once")
}

// oidcIssuer is an OpenID Connect issuer that gives fresh for the refresh token "first",
// and refuses all else.
func oidcIssuer(t *testing.T, fresh string, renewals *atomic.Int32) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	issuer := httptest.NewTLSServer(mux)
	t.Cleanup(issuer.Close)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]string{"issuer": issuer.URL, "token_endpoint": issuer.URL + "/token"})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("grant_type") != "refresh_token" || r.FormValue("refresh_token") != "first" {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		renewals.Add(1)
		answer(w, map[string]any{"access_token": "unused", "token_type": "Bearer", "id_token": fresh, "refresh_token": "second"})
	})
	return issuer
}

// oidcKubeconfig logs in to server with a token of issuer that expired a minute ago.
func oidcKubeconfig(t *testing.T, server, issuer *httptest.Server) api.Config {
	t.Helper()
	c := api.NewConfig()
	c.Clusters["c"] = &api.Cluster{Server: server.URL, CertificateAuthorityData: certificate(server)}
	c.AuthInfos["me"] = &api.AuthInfo{AuthProvider: &api.AuthProviderConfig{Name: "oidc", Config: map[string]string{
		"idp-issuer-url":                 issuer.URL,
		"idp-certificate-authority-data": base64.StdEncoding.EncodeToString(certificate(issuer)),
		"client-id":                      "kplan",
		"client-secret":                  "secret",
		"id-token":                       idToken(t, time.Now().Add(-time.Minute)),
		"refresh-token":                  "first",
	}}}
	c.Contexts["me@c"] = &api.Context{Cluster: "c", AuthInfo: "me"}
	c.CurrentContext = "me@c"
	return *c
}

// certificate is that of a test server, in PEM.
func certificate(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// idToken is a JWT that expires at a time. Clients do not check its signature.
func idToken(t *testing.T, expiry time.Time) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"sub": "me", "exp": expiry.Unix()})
	require.NoError(t, err)
	part := base64.RawURLEncoding.EncodeToString
	return strings.Join([]string{part([]byte(`{"alg":"RS256"}`)), part(claims), part([]byte("signature"))}, ".")
}
