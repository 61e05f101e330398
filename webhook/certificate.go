package webhook

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"
)

// Certificate is a chain that a webhook's pods mount, leaf first.
type Certificate struct {
	// Source is the Secret that it was read from.
	Source Object
	Chain  []*x509.Certificate
}

// checkBundle says what is wrong with a CA bundle. One that holds nothing but
// white space is a placeholder; charts ship "Cg==", which is a line feed.
func checkBundle(bundle []byte, now time.Time) (state State, reason string, since time.Time) {
	if len(bytes.TrimSpace(bundle)) == 0 {
		return Waiting, "the CA bundle is empty: nothing has injected one yet", since
	}
	var last *x509.Certificate
	for _, c := range ParseCertificates(bundle) {
		if !now.Before(c.NotBefore) && !now.After(c.NotAfter) {
			return Ready, "", since
		}
		last = c
	}
	switch {
	case last == nil:
		return Failed, "the CA bundle holds no certificate", since
	case now.Before(last.NotBefore):
		return Waiting, "the CA bundle is not valid before " + timestamp(last.NotBefore), since
	default:
		return Failed, "the CA bundle expired at " + timestamp(last.NotAfter), last.NotAfter
	}
}

// ParseCertificates reads all certificates of a PEM text, and leaves out what
// is none, as crypto/x509's CertPool does.
func ParseCertificates(text []byte) []*x509.Certificate {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			return certs
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			certs = append(certs, c)
		}
	}
}

// certificate judges the mounted certificates as the API server would. Its
// State is Unknown when one fits, when there is none, and when none is for the
// webhook's name: that one may be elsewhere. An authority that does not fit is what the
// program signs with, such as the one in istiod's Secret cacerts.
func (b *Backing) certificate(e *Entry, now time.Time) Reading {
	ref := e.Client.Service
	name := ref.Name + "." + ref.Namespace + ".svc" // what the API server asks for
	roots := x509.NewCertPool()
	for _, c := range ParseCertificates(e.Client.CABundle) {
		roots.AddCert(c)
	}
	r := Reading{Rung: Serving, State: Unknown}
	for _, c := range b.Certificates {
		if len(c.Chain) == 0 {
			continue
		}
		err := c.verify(name, roots, now)
		the := "the certificate in Secret " + c.Source.Name
		switch {
		case err == nil:
			return Reading{Rung: Serving, State: Unknown, Reason: the + " fits; it was not called yet", Source: c.Source}
		case c.Chain[0].IsCA:
		case errors.As(err, new(x509.HostnameError)):
			if r.Reason == "" {
				r.Reason, r.Source = the+" is not for its name: "+err.Error(), c.Source
			}
		case now.After(c.Chain[0].NotAfter):
			r.State, r.Reason, r.Source = Failed, the+" expired at "+timestamp(c.Chain[0].NotAfter), c.Source
			r.Since = c.Chain[0].NotAfter
		case now.Before(c.Chain[0].NotBefore):
			r.State, r.Reason, r.Source = Waiting, the+" is not valid before "+timestamp(c.Chain[0].NotBefore), c.Source
		case errors.As(err, new(x509.UnknownAuthorityError)):
			r.State, r.Reason, r.Source = Waiting, the+" is not of an authority in the CA bundle", c.Source
		default:
			r.State, r.Reason, r.Source = Waiting, the+" is not accepted: "+err.Error(), c.Source
		}
	}
	return r
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// verify checks the chain as a TLS client does, the name first: an error about
// the name says most.
func (c Certificate) verify(name string, roots *x509.CertPool, now time.Time) error {
	if err := c.Chain[0].VerifyHostname(name); err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, i := range c.Chain[1:] {
		between.AddCert(i)
	}
	_, err := c.Chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now})
	return err
}
