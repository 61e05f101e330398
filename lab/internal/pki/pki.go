// Package pki makes the certificates and keys of one lab: a certificate
// authority and what it signs, all ECDSA P-256, valid for ten years.
//
// The authority's key stays in the lab's folder and dies with it. The package
// neither renews nor revokes.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Pair is a certificate with its key, both PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Subject says what a certificate is for. With Hosts it serves, without it
// is a client's; either way clients see User and Groups.
type Subject struct {
	User   string
	Groups []string
	Hosts  []string // DNS names and IP addresses
	// From and To bound its validity; zero: from now on, as long as the authority's.
	From, To time.Time
}

// NewAuthority makes a self-signed authority.
func NewAuthority(name string) (*Authority, error) {
	key, text, err := newKey()
	if err != nil {
		return nil, err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name, NotBefore: start()}, key)
	if err != nil {
		return nil, err
	}
	return &Authority{Pair: Pair{Cert: encode(ca.Raw), Key: text}, cert: ca, key: key}, nil
}

// Sign makes a key and a certificate for s.
func (a *Authority) Sign(s Subject) (Pair, error) {
	key, text, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.User, Organization: s.Groups},
		NotBefore:   start(),
		NotAfter:    a.cert.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if !s.To.IsZero() {
		template.NotBefore, template.NotAfter = s.From, s.To
	}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range s.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	return Pair{Cert: encode(der), Key: text}, err
}

// NewKeys makes the pair that signs and checks service account tokens; the
// public key stands where a certificate would.
func NewKeys() (Pair, error) {
	key, text, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), Key: text}, err
}

// Write stores the pair as dir/NAME.crt and dir/NAME.key, readable by the
// owner only.
func (p Pair) Write(dir, name string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o600),
		os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600))
}

func newKey() (key *ecdsa.PrivateKey, text []byte, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	text, err = keyutil.MarshalPrivateKeyToPEM(key)
	return key, text, err
}

// start is when new certificates become valid: clocks differ a little.
func start() time.Time { return time.Now().Add(-time.Hour) }

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}
