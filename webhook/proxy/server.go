package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server serves handlers on one loopback address, over TLS and only to those who
// have its token. Both are made anew for each server.
type Server struct {
	listener net.Listener
	http     *http.Server
	ca       []byte
	token    string
	end      context.CancelCauseFunc // of all requests
	digest   [sha256.Size]byte       // of the token

	mu       sync.RWMutex
	handlers map[string]http.Handler
}

// Listen makes a server that listens at an address, such as 127.0.0.1:0, which
// must be a loopback one. Connections are accepted by Serve.
func Listen(address string) (*Server, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address to listen at: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("address to listen at: %s is not of this machine alone: it must be a loopback address such as 127.0.0.1:0", address)
	}
	listener, err := net.Listen("tcp", address) //nolint:noctx // it lasts as long as the server
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, handlers: map[string]http.Handler{}}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	s.token = base64.RawURLEncoding.EncodeToString(secret)
	s.digest = sha256.Sum256([]byte(s.token))
	certificate, err := s.certify(time.Now())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, end := context.WithCancelCause(context.Background())
	s.end = end
	s.http = &http.Server{
		Handler:     s,
		BaseContext: func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		},
		ErrorLog:          log.New(io.Discard, "", 0), // of clients that do not finish a handshake
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute, // of connections without a request
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000, MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 256 << 10},
	}
	return s, nil
}

// lifetime is how long the certificate is in force: as long as a server may serve.
const lifetime = 365 * 24 * time.Hour

// certify makes the server's certificate and its authority. They are two: who is an
// authority is refused as a server by some clients (rustls: CaUsedAsEndEntity).
func (s *Server) certify(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	address, _ := s.listener.Addr().(*net.TCPAddr)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "kplan's proxy"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // which nobody has after this
	if err != nil {
		return tls.Certificate{}, err
	}
	ca, err := x509.CreateCertificate(rand.Reader, authority, authority, signer.Public(), signer)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: "kplan"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{address.IP}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), signer)
	if err != nil {
		return tls.Certificate{}, err
	}
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// CA is the authority of the server's certificate, in PEM.
func (s *Server) CA() []byte { return s.ca }

// Token is what clients must show as a bearer token.
func (s *Server) Token() string { return s.token }

// Address is where the server listens, as host:port.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Handle serves a handler below a path of its own, such as /c0, and returns the URL
// for clients. The path has one part; a handler that had it before is replaced.
func (s *Server) Handle(path string, h http.Handler) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[path] = http.StripPrefix(path, h)
	return "https://" + s.Address() + path
}

// Serve accepts connections until the server is closed. It returns nil then.
func (s *Server) Serve() error {
	if err := s.http.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ErrClosed is why requests end that are on their way when the server is closed.
var ErrClosed = errors.New("kplan's proxy was closed")

// Close stops listening and ends all requests.
func (s *Server) Close() error {
	s.end(ErrClosed)
	err := s.http.Close()
	if cerr := s.listener.Close(); cerr != nil && !errors.Is(cerr, net.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}

// ServeHTTP checks the token and finds the handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.admits(r) {
		WriteError(w, r, http.StatusUnauthorized, "this is kplan's proxy: use the kubeconfig that was made for it")
		return
	}
	// Behind a path of its own the API server may have a proxy that would follow it.
	if slices.Contains(strings.Split(r.URL.Path, "/"), "..") {
		WriteError(w, r, http.StatusBadRequest, "kplan's proxy takes no path with ..")
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	path := "/" + name
	s.mu.RLock()
	h := s.handlers[path]
	s.mu.RUnlock()
	if h == nil {
		WriteError(w, r, http.StatusNotFound, "kplan's proxy knows no cluster at "+path+": use the kubeconfig that was made for it")
		return
	}
	h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), prefixKey{}, path)))
}

// admits reports whether a request shows the token, in a time that tells nothing
// of it.
func (s *Server) admits(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	digest := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(digest[:], s.digest[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}
