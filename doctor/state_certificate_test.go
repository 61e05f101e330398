package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Certificates of a state, base64 of PEM, as a caBundle or Secret has them:
//
//	{{CA name}}, {{CA name days}}, {{CA name days host}}  an authority, in force for so many days; 3650 without
//	{{CERT name host days}}                               a certificate of that authority for a host
//
// Both are in force since a year ago, and the same name is the same one.
var certificateOf = regexp.MustCompile(`\{\{(CA|CERT) ([^}]+)\}\}`)

// authority is one that was made for a state.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

// expand replaces the names of certificates by certificates.
func (s *state) expand(t *testing.T, text string) string {
	t.Helper()
	return certificateOf.ReplaceAllStringFunc(text, func(match string) string {
		parts := certificateOf.FindStringSubmatch(match)
		fields := strings.Fields(parts[2])
		if parts[1] == "CA" {
			days := 3650.0
			if len(fields) > 1 {
				days = number(t, fields[1])
			}
			return s.authority(t, fields[0], days, fields[min(2, len(fields)):]...).pem
		}
		require.Len(t, fields, 3, "{{CERT name host days}}")
		key := strings.Join(fields, " ")
		if s.certificates[key] == "" {
			ca := s.authority(t, fields[0], 3650)
			template := &x509.Certificate{Subject: pkix.Name{CommonName: "server"}, DNSNames: []string{fields[1]}}
			s.certificates[key] = sign(t, template, ca.certificate, ca.key, number(t, fields[2])).pem
		}
		return s.certificates[key]
	})
}

func (s *state) authority(t *testing.T, name string, days float64, hosts ...string) *authority {
	t.Helper()
	if s.authorities[name] == nil {
		s.authorities[name] = sign(t, &x509.Certificate{
			Subject: pkix.Name{CommonName: name}, DNSNames: hosts, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}, nil, nil, days)
	}
	return s.authorities[name]
}

// sign makes a certificate that ends in so many days; one without a parent signs itself.
func sign(t *testing.T, c, parent *x509.Certificate, by *ecdsa.PrivateKey, days float64) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c.SerialNumber = big.NewInt(1)
	c.NotBefore = time.Now().AddDate(-1, 0, 0)
	c.NotAfter = time.Now().Add(time.Duration(days * 24 * float64(time.Hour)))
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	require.NoError(t, err)
	made, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &authority{made, key, base64.StdEncoding.EncodeToString(text)}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return n
}
