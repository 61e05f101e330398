// Package thousand makes many logical clusters of one lab: each has an address of its own on a
// TLS proxy, a user with rights in a namespace of its own, and faults that a test scripts.
package thousand

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// Fleet is the proxy, and the clusters behind it.
type Fleet struct {
	// Clusters are in the order of their names.
	Clusters []*Cluster

	lab       *labtest.Lab
	prefix    string
	namespace string // of the Secrets with kubeconfigs
	ca        []byte // as PEM
	next      http.Handler
	// addresses are those of the proxy, of one that closes each connection, and of one with
	// the certificate of somebody else.
	address, deaf, stranger string

	open atomic.Int64
}

// Open is how many connections clients have to the clusters now.
func (f *Fleet) Open() int { return int(f.open.Load()) }

// count counts connections.
func (f *Fleet) count(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		f.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		f.open.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

// Handler answers a request to a cluster; next sends it on with the rights of the cluster's
// user.
type Handler func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Cluster is one logical cluster.
type Cluster struct {
	// Name is c0001 and so on, and Namespace its own.
	Name, Namespace string

	fleet *Fleet
	user  string

	mu      sync.Mutex
	token   string // that is accepted
	address string
	handler Handler
	reads   int
}

// New makes so many clusters of a lab. They are gone when the test ends.
func New(t testing.TB, lab *labtest.Lab, n int) *Fleet {
	t.Helper()
	f := &Fleet{lab: lab, prefix: "f" + strings.ToLower(base32Time()) + "-"}
	config := lab.Config(t)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	server, _, err := rest.DefaultServerUrlFor(config)
	require.NoError(t, err)
	f.next = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: server.Scheme, Host: server.Host}) },
		Transport:     transport,
		FlushInterval: -1,                                                 // events of watches are for now
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) {}, // the client has gone
		BufferPool:    &buffers{},
	}
	authority, trusted := certificate(t)
	f.ca = trusted
	f.address = f.serve(t, authority, http.HandlerFunc(f.handle))
	stranger, _ := certificate(t)
	f.stranger = f.serve(t, stranger, http.HandlerFunc(f.handle))
	f.deaf = deaf(t)
	for i := range n {
		name := fmt.Sprintf("c%04d", i+1)
		f.Clusters = append(f.Clusters, &Cluster{
			Name: name, Namespace: f.prefix + name, fleet: f, user: "fleet:" + f.prefix + name, token: "token-" + name, address: f.address,
		})
	}
	f.populate(t)
	return f
}

func base32Time() string { return fmt.Sprintf("%x", time.Now().UnixNano()&0xffffff) }

// buffers are what the proxy copies answers with.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// certificate makes one for this machine that signs itself.
func certificate(t testing.TB) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "fleet"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// serve serves until the test ends, and returns the address.
func (f *Fleet) serve(t testing.TB, c tls.Certificate, h http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{
		Handler: h, ConnState: f.count, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return "https://" + listener.Addr().String()
}

// deaf is where connections are closed at once.
func deaf(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { // ends with the listener
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return "https://" + listener.Addr().String()
}

// populate makes the clusters' namespaces and rights, side by side.
func (f *Fleet) populate(t testing.TB) {
	t.Helper()
	set := f.lab.Clientset(t)
	group := "fleet:" + strings.TrimSuffix(f.prefix, "-")
	ctx := t.Context()
	look := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: group}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
	}}
	_, err := set.RbacV1().ClusterRoles().Create(ctx, look, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = set.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: group},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		_ = set.RbacV1().ClusterRoleBindings().Delete(ctx, group, metav1.DeleteOptions{})
		_ = set.RbacV1().ClusterRoles().Delete(ctx, group, metav1.DeleteOptions{})
	})
	f.each(t, func(ctx context.Context, c *Cluster) error { return c.populate(ctx, set) })
	t.Cleanup(func() {
		for _, c := range f.Clusters {
			_ = set.CoreV1().Namespaces().Delete(context.Background(), c.Namespace, metav1.DeleteOptions{})
		}
	})
}

// each does something for all clusters, side by side.
func (f *Fleet) each(t testing.TB, do func(context.Context, *Cluster) error) {
	t.Helper()
	work, errs := make(chan *Cluster), make(chan error, len(f.Clusters))
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() { // ends with work
			for c := range work {
				errs <- do(t.Context(), c)
			}
		})
	}
	for _, c := range f.Clusters {
		work <- c
	}
	close(work)
	workers.Wait()
	for range f.Clusters {
		require.NoError(t, <-errs)
	}
}

// populate makes the namespace of a cluster, where its user may do all.
func (c *Cluster) populate(ctx context.Context, set kubernetes.Interface) error {
	_, err := set.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace, Labels: map[string]string{"kplan.dev/test": "true"}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = set.RbacV1().RoleBindings(c.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: c.user}},
	}, metav1.CreateOptions{})
	return err
}

// handle sends a request to where its cluster wants it.
func (f *Fleet) handle(w http.ResponseWriter, r *http.Request) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/c/%d/", &n); err != nil || n < 1 || n > len(f.Clusters) {
		http.NotFound(w, r)
		return
	}
	c := f.Clusters[n-1]
	_, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/c/"), "/")
	r.URL.Path, r.URL.RawPath = "/"+rest, ""
	c.mu.Lock()
	token, handler := c.token, c.handler
	c.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+token {
		Answer(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return
	}
	r.Header.Del("Authorization")
	r.Header.Set("Impersonate-User", c.user)
	r.Header["Impersonate-Group"] = []string{"fleet:" + strings.TrimSuffix(f.prefix, "-"), "system:authenticated"}
	if handler != nil {
		handler(w, r, f.next)
		return
	}
	f.next.ServeHTTP(w, r)
}

// Script has a cluster's requests answered by a handler; nil sends them on.
func (c *Cluster) Script(h Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = h
}

// Refuse has the cluster close each connection at once.
func (c *Cluster) Refuse() { c.move(c.fleet.deaf) }

// Pretend has somebody else answer in the cluster's place, with a certificate of its own.
func (c *Cluster) Pretend() { c.move(c.fleet.stranger) }

// Mend ends all faults of the cluster.
func (c *Cluster) Mend() {
	c.Script(nil)
	c.move(c.fleet.address)
}

func (c *Cluster) move(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address = address
}

// Rotate has the cluster accept another token from now on, which Kubeconfig has.
func (c *Cluster) Rotate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token += "-next"
}

// Server is the cluster's address.
func (c *Cluster) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.address + "/c/" + strings.TrimPrefix(c.Name, "c")
}

// Reads is how often Kubeconfig was called.
func (c *Cluster) Reads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

// Kubeconfig is one with the cluster's present token. What it trusts is written otherwise than
// for any other cluster, so that no two share what a client keeps for an authority.
func (c *Cluster) Kubeconfig() []byte {
	server := c.Server()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	ca := append([]byte("# "+c.Name+"\n"), c.fleet.ca...)
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":%q}}],`+
		`"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],"users":[{"name":"u","user":{"token":%q}}]}`,
		c.Namespace, server, base64.StdEncoding.EncodeToString(ca), c.token)
}

// Answer answers as an API server does that does not do what it was asked for.
func Answer(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
	_, _ = w.Write(b.Bytes())
}
