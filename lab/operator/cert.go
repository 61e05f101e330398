package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/lab/internal/pki"
)

// pair is a certificate as Secrets hold it.
type pair struct{ ca, cert, key []byte }

func (p pair) secret(namespace, name string) *unstructured.Unstructured {
	return newSecret(namespace, name, "kubernetes.io/tls", map[string][]byte{"ca.crt": p.ca, "tls.crt": p.cert, "tls.key": p.key})
}

// certHolder holds the certificate that is served. It is filled once or more by
// the certificate part and read by every handshake.
type certHolder struct {
	served atomic.Pointer[tls.Certificate]
	ca     atomic.Pointer[[]byte]
	filled chan struct{} // closed by the first set
}

func newCertHolder() *certHolder { return &certHolder{filled: make(chan struct{})} }

// set is called by the certificate part only.
func (k *certHolder) set(p pair) error {
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

func (k *certHolder) wait(ctx context.Context) error {
	select {
	case <-k.filled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// get is tls.Config's GetCertificate. Without a certificate the handshake ends
// in "remote error: tls: internal error", as with real operators.
func (k *certHolder) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.served.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("no certificate yet")
}

// certSource fills a certHolder from where --cert says.
type certSource struct{ *operator }

func (s certSource) run(ctx context.Context) error {
	switch s.cfg.Cert {
	case certFiles: // as External Secrets' webhook does with its initially empty Secret
		return s.follow(ctx, "folder", s.cfg.CertDir, func() (pair, error) { return readPair(s.cfg.CertDir) })
	case certSecret:
		return s.follow(ctx, "secret", s.cfg.CertSecret, func() (pair, error) {
			p, _, err := s.read(ctx)
			return p, err
		})
	case certSelf:
		if err := sleep(ctx, s.cfg.CertDelay); err != nil {
			return err
		}
		return s.create(ctx)
	}
	return nil
}

// follow polls a place that somebody else fills, until it has a certificate or, with
// --cert-reload, for ever.
func (s certSource) follow(ctx context.Context, kind, place string, read func() (pair, error)) error {
	var served, said string
	for {
		p, err := read()
		if err == nil && len(p.cert) > 0 && string(p.cert) != served {
			if err = s.certs.set(p); err == nil {
				served = string(p.cert)
				s.log.Info("certificate read", kind, place)
			}
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			s.log.Info("no certificate yet", "error", err)
		}
		if served != "" && !s.cfg.CertReload {
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

// create uses the pair in the Secret, or makes one and stores it there. The Secret
// may exist and be empty, as in External Secrets' chart.
func (s certSource) create(ctx context.Context) error {
	service, _, err := s.cfg.service()
	if err != nil {
		return err
	}
	for {
		p, old, err := s.read(ctx)
		if err != nil {
			return err
		}
		if p.cert != nil && p.key != nil && p.ca != nil {
			s.log.Info("certificate found", "secret", s.cfg.CertSecret)
			return s.certs.set(p)
		}
		if p, err = newPair(serviceNames(service, s.cfg.Namespace), s.cfg.CertFault); err != nil {
			return err
		}
		made := p.secret(s.cfg.Namespace, s.cfg.CertSecret)
		if old == nil {
			err = s.secrets.create(ctx, made)
		} else {
			old.Object["data"] = made.Object["data"]
			err = s.secrets.update(ctx, old)
		}
		switch {
		case err == nil:
			s.log.Info("certificate made", "secret", s.cfg.CertSecret)
			return s.certs.set(p)
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return fmt.Errorf("store the certificate: %w", err)
		}
	}
}

// read returns the Secret's pair; the object is nil when there is none.
func (s certSource) read(ctx context.Context) (pair, *unstructured.Unstructured, error) {
	u, err := s.secrets.get(ctx, s.cfg.Namespace, s.cfg.CertSecret)
	if u == nil || err != nil {
		return pair{}, nil, err
	}
	data, err := secretData(u)
	return pair{ca: data["ca.crt"], cert: data["tls.crt"], key: data["tls.key"]}, u, err
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
func newPair(names []string, fault string) (pair, error) {
	now := time.Now()
	subject := pki.Subject{User: names[0], Hosts: names}
	switch fault {
	case "expired":
		subject.From, subject.To = now.Add(-2*time.Hour), now.Add(-time.Hour)
	case "early":
		subject.From, subject.To = now.Add(time.Hour), now.AddDate(10, 0, 0)
	case "wrong-san":
		subject = pki.Subject{User: "other.ns.svc", Hosts: []string{"other.ns.svc"}}
	}
	authority, err := pki.NewAuthority(names[0] + "-ca")
	if err != nil {
		return pair{}, err
	}
	made, err := authority.Sign(subject)
	return pair{ca: authority.Cert, cert: made.Cert, key: made.Key}, err
}
