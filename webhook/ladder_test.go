package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// noon is when the ladders of testdata/ladder are read.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestLadder climbs the ladder of every archive in testdata/ladder: "objects"
// are what is in the cluster, in which ${ca} stands for a certificate of
// authorities; "read" says what else is known. "ladder" is the golden.
func TestLadder(t *testing.T) {
	files, err := filepath.Glob("testdata/ladder/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			require.NoError(t, err)
			s := sceneOf(t, a)
			got := s.String()
			at := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "ladder" })
			if *update {
				if at < 0 {
					at, a.Files = len(a.Files), append(a.Files, txtar.File{Name: "ladder"})
				}
				a.Files[at].Data = []byte(got)
				require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o644))
				return
			}
			require.GreaterOrEqual(t, at, 0, "no golden: run with -update")
			require.Equal(t, string(a.Files[at].Data), got)
		})
	}
}

// scene is what a ladder is read from.
type scene struct {
	entry   *Entry
	backing Backing
	call    Call
	known   struct {
		Error    string            `json:"error"`    // of the last call, as the API server words it
		Answers  int               `json:"answers"`  // or it was answered, so many times in a row
		Unread   map[string]string `json:"unread"`   // see Backing
		Absent   []string          `json:"absent"`   // see Backing
		Conclude bool              `json:"conclude"` // show what Reclassify says of the error, too
	}
}

func sceneOf(t *testing.T, a *txtar.Archive) *scene {
	t.Helper()
	s := &scene{}
	for _, f := range a.Files {
		switch f.Name {
		case "objects":
			for text := range strings.SplitSeq(string(f.Data), "---\n") {
				s.add(t, object(t, os.Expand(text, func(name string) string {
					var chain []byte
					for n := range strings.SplitSeq(name, "+") {
						require.Contains(t, authorities(), n)
						chain = append(chain, authorities()[n]...)
					}
					return base64.StdEncoding.EncodeToString(chain)
				})))
			}
		case "read":
			require.NoError(t, yaml.UnmarshalStrict(f.Data, &s.known))
		}
	}
	s.backing.Unread, s.backing.MissingSecrets = s.known.Unread, s.known.Absent
	if s.known.Error != "" {
		s.call = Call{At: noon, Since: noon.Add(-time.Second), Fault: ClassifyError(errors.New(s.known.Error))}
	} else if s.known.Answers > 0 {
		s.call = Call{At: noon, Since: noon.Add(-time.Second), Answers: s.known.Answers}
	}
	return s
}

func (s *scene) add(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	switch u.GetKind() {
	case "Service":
		s.backing.Service = typed[corev1.Service](t, u)
	case "EndpointSlice":
		s.backing.Slices = append(s.backing.Slices, typed[discoveryv1.EndpointSlice](t, u))
	case "Pod":
		s.backing.Pods = append(s.backing.Pods, typed[corev1.Pod](t, u))
	case "Secret":
		secret := typed[corev1.Secret](t, u)
		s.backing.Certificates = append(s.backing.Certificates, Certificate{
			Source: Object{Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name},
			Chain:  ParseCertificates(secret.Data[corev1.TLSCertKey]),
		})
	default:
		entries, err := EntriesOf(u)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		s.entry = &entries[0]
	}
}

func typed[T any](t *testing.T, u *unstructured.Unstructured) *T {
	t.Helper()
	o := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o))
	return o
}

// String is the ladder, a line for each rung, and what follows from it.
func (s *scene) String() string {
	var b strings.Builder
	l := ReadLadder(s.entry, &s.backing, s.call, noon)
	for _, r := range l {
		fmt.Fprintf(&b, "%-10s %-7s", r.Rung, r.State)
		for _, x := range []string{r.Source.String(), r.Reason} {
			if x != "" {
				fmt.Fprintf(&b, " | %s", x)
			}
		}
		if !r.Since.IsZero() {
			fmt.Fprintf(&b, " | since %s", r.Since.UTC().Format(time.TimeOnly))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "callable: %t\n", l.Callable())
	if s.known.Conclude {
		fmt.Fprintf(&b, "the call's class: %s, judged: %s\n", s.call.Fault.Class, Reclassify(s.call.Fault, s.entry, &s.backing, noon))
	}
	return b.String()
}

// authorities are certificates by name, as PEM. All authorities are good from
// 11:00 to 13:00 but those whose names say otherwise, and of the server
// certificates "leaf" is the one that a webhook at the Service ns/w needs.
var authorities = sync.OnceValue(func() map[string][]byte {
	hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	made := map[string][]byte{}
	var serial int64
	issue := func(name string, c x509.Certificate, by *issuer) *issuer {
		serial++
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		c.SerialNumber, c.Subject = big.NewInt(serial), pkix.Name{CommonName: name}
		if c.NotBefore.IsZero() {
			c.NotBefore, c.NotAfter = hour(-1), hour(1)
		}
		if by == nil {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
			by = &issuer{&c, key}
		}
		der, err := x509.CreateCertificate(rand.Reader, &c, by.certificate, key.Public(), by.key)
		if err != nil {
			panic(err)
		}
		made[name] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		return &issuer{&c, key}
	}
	ca := issue("ca", x509.Certificate{}, nil)
	other := issue("other", x509.Certificate{}, nil)
	issue("expired", x509.Certificate{NotBefore: hour(-3), NotAfter: hour(-2)}, nil)
	issue("future", x509.Certificate{NotBefore: hour(2), NotAfter: hour(3)}, nil)
	name := []string{"w.ns.svc"}
	issue("signer", x509.Certificate{DNSNames: name}, nil)
	issue("leaf", x509.Certificate{DNSNames: name}, ca)
	issue("leaf-of-other", x509.Certificate{DNSNames: name}, other)
	issue("leaf-of-localhost", x509.Certificate{DNSNames: []string{"localhost"}}, ca)
	issue("leaf-expired", x509.Certificate{DNSNames: name, NotBefore: hour(-3), NotAfter: hour(-2)}, ca)
	issue("leaf-of-the-future", x509.Certificate{DNSNames: name, NotBefore: hour(2), NotAfter: hour(3)}, ca)
	return made
})

type issuer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}
