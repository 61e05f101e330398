package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A served certificate is trusted for its hosts and no other.
func TestSign(t *testing.T) {
	authority, err := NewAuthority("lab")
	require.NoError(t, err)
	pair, err := authority.Sign(Subject{User: "kube-apiserver", Hosts: []string{"kubernetes", "127.0.0.1"}})
	require.NoError(t, err)

	loaded, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(loaded.Certificate[0])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority.Cert))

	for host, trusted := range map[string]bool{"kubernetes": true, "127.0.0.1": true, "elsewhere": false} {
		_, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots})
		require.Equal(t, trusted, err == nil, "%s: %v", host, err)
	}
	require.True(t, cert.IPAddresses[0].Equal(net.IPv4(127, 0, 0, 1)))
}

// A client certificate says who the client is and cannot serve.
func TestSignClient(t *testing.T) {
	authority, err := NewAuthority("lab")
	require.NoError(t, err)
	pair, err := authority.Sign(Subject{User: "admin", Groups: []string{"system:masters"}})
	require.NoError(t, err)
	loaded, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(loaded.Certificate[0])
	require.NoError(t, err)
	require.Equal(t, "admin", cert.Subject.CommonName)
	require.Equal(t, []string{"system:masters"}, cert.Subject.Organization)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, cert.ExtKeyUsage)
}

// Keys are not readable by anyone else.
func TestWrite(t *testing.T) {
	keys, err := NewKeys()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, keys.Write(dir, "sa"))
	for _, name := range []string{"sa.crt", "sa.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}
