package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// pair is a certificate as Secrets hold it.
type pair struct{ ca, cert, key []byte }

// keyring holds the certificate that is served. It is filled once or more by
// the certificate part and read by every handshake.
type keyring struct {
	served atomic.Pointer[tls.Certificate]
	ca     atomic.Pointer[[]byte]
	filled chan struct{} // closed by the first set
}

func newKeyring() *keyring { return &keyring{filled: make(chan struct{})} }

// set is called by the certificate part only.
func (k *keyring) set(p pair) error {
	c, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return err
	}
	k.ca.Store(&p.ca)
	if k.served.Swap(&c) == nil {
		close(k.filled)
	}
	return nil
}

func (k *keyring) wait(ctx context.Context) error {
	select {
	case <-k.filled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// get is tls.Config's GetCertificate. Without a certificate the handshake ends
// in "remote error: tls: internal error", as with real operators.
func (k *keyring) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.served.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("no certificate yet")
}

// certificate fills the keyring from where --cert says.
func (o *operator) certificate(ctx context.Context) error {
	switch o.cfg.Cert {
	case certFiles:
		return o.certificateFromFiles(ctx)
	case certSecret:
		return o.certificateFromSecret(ctx)
	case certSelf:
		if err := sleep(ctx, o.cfg.CertDelay); err != nil {
			return err
		}
		return o.makeCertificate(ctx)
	}
	return nil
}

// certificateFromFiles waits until both files have content, as External
// Secrets' webhook does with its initially empty Secret.
func (o *operator) certificateFromFiles(ctx context.Context) error {
	var served, said string
	for {
		p, err := readPair(o.cfg.CertDir)
		if err == nil && string(p.cert) != served {
			if err = o.certs.set(p); err == nil {
				served = string(p.cert)
				o.log.Info("certificate read", "folder", o.cfg.CertDir)
			}
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			o.log.Info("no certificate yet", "error", err)
		}
		if served != "" && !o.cfg.CertReload {
			return nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

func readPair(dir string) (pair, error) {
	cert, errC := os.ReadFile(filepath.Join(dir, "tls.crt"))
	key, errK := os.ReadFile(filepath.Join(dir, "tls.key"))
	if err := errors.Join(errC, errK); err != nil {
		return pair{}, err
	}
	ca, _ := os.ReadFile(filepath.Join(dir, "ca.crt"))
	return pair{ca: ca, cert: cert, key: key}, nil
}

// service splits --service into name and port (443 when absent).
func (c config) service() (name string, port int64, err error) {
	name, p, ok := strings.Cut(c.Service, ":")
	if !ok {
		return name, 443, nil
	}
	port, err = strconv.ParseInt(p, 10, 32)
	return name, port, err
}

// serviceNames are the DNS names of a Service.
func serviceNames(service, namespace string) []string {
	return []string{service + "." + namespace + ".svc", service + "." + namespace + ".svc.cluster.local"}
}

// newPair makes a CA and a certificate for DNS names, good for ten years, or bad
// in the way that fault says.
func newPair(names []string, fault string, now time.Time) (pair, error) {
	from, to := now.Add(-time.Minute), now.AddDate(10, 0, 0)
	switch fault {
	case "expired":
		from, to = now.Add(-2*time.Hour), now.Add(-time.Hour)
	case "early":
		from = now.Add(time.Hour)
	case "wrong-san":
		names = []string{"other.ns.svc"}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: names[0] + "-ca"},
		NotBefore: now.Add(-3 * time.Hour), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: from, NotAfter: to,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return pair{}, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return pair{}, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair{}, fmt.Errorf("encode the key: %w", err)
	}
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return pair{ca: encode("CERTIFICATE", caDER), cert: encode("CERTIFICATE", leafDER), key: encode("EC PRIVATE KEY", keyDER)}, nil
}
