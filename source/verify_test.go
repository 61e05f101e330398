package source_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/source"
)

// signer makes a key of PGP, and the file of its keyring.
func signer(t *testing.T) (*openpgp.Entity, string) {
	t.Helper()
	key, err := openpgp.NewEntity("test", "", "test@example.com", nil)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, key.Serialize(&b))
	file := filepath.Join(t.TempDir(), "pubring.gpg")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	return key, file
}

// provenance is what helm package --sign writes.
func provenance(t *testing.T, key *openpgp.Entity, file string, archive []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, key.PrivateKey, nil)
	require.NoError(t, err)
	_, err = fmt.Fprintf(w, "name: x\nversion: 1.0.0\n\n...\nfiles:\n  %s: %s\n", file, digest(archive))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// A chart whose provenance file is missing, by another key, or of another archive, is
// refused for good; the repository's one is fetched beside the archive.
func TestProvenance(t *testing.T) {
	noLogins(t)
	archive := []byte("chart")
	key, keyring := signer(t)
	other, _ := signer(t)
	for name, c := range map[string]struct {
		provenance []byte
		want       string // of the error; "" for none
	}{
		"good":               {provenance: provenance(t, key, "x-1.0.0.tgz", archive)},
		"missing":            {want: "it has no provenance file"},
		"not signed":         {provenance: []byte("files: {}"), want: "is not signed"},
		"of another key":     {provenance: provenance(t, other, "x-1.0.0.tgz", archive), want: "is not by a key of the keyring"},
		"of another archive": {provenance: provenance(t, key, "x-1.0.0.tgz", []byte("x")), want: "is not the one that was signed"},
		"of another chart":   {provenance: provenance(t, key, "y-1.0.0.tgz", archive), want: "is not of x-1.0.0.tgz"},
		"changed":            {provenance: bytes.Replace(provenance(t, key, "x-1.0.0.tgz", []byte("x")), []byte(digest([]byte("x"))), []byte(digest(archive)), 1), want: "is not by a key of the keyring"},
	} {
		t.Run(name, func(t *testing.T) {
			texts := map[string]string{"/x-1.0.0.tgz": string(archive), "/index.yaml": "entries: {x: [{name: x, version: 1.0.0, urls: [x-1.0.0.tgz]}]}"}
			if c.provenance != nil {
				texts["/x-1.0.0.tgz.prov"] = string(c.provenance)
			}
			want := source.Chart{Name: "x", Repo: serve(t, texts).URL, Keyring: keyring}
			a, err := open(t, source.Options{}).Chart(t.Context(), want)
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, archive, a.Bytes)
				return
			}
			require.ErrorContains(t, err, c.want)
			var unverified *source.UnverifiedError
			require.ErrorAs(t, err, &unverified)
		})
	}
}

// A mirror is a server as others are: what comes from it must be signed, too.
func TestWhatAMirrorHasIsVerified(t *testing.T) {
	noLogins(t)
	key, keyring := signer(t)
	r := newRegistry(t)
	r.push(t, "1.0.0", chartLayer, []byte("chart"))
	mapping, err := source.ParseMapping("registry.example.com=http://" + r.host())
	require.NoError(t, err)
	mirrors := source.NewMirrors(source.Options{Cache: t.TempDir()}, mapping)
	t.Cleanup(mirrors.Close)
	want := source.Chart{Name: "oci://registry.example.com/charts/x", Version: "1.0.0", Keyring: keyring}

	_, err = open(t, source.Options{Contents: mirrors}).Chart(t.Context(), want)
	require.ErrorContains(t, err, "it was pushed without")

	r.addLayer(t, "1.0.0", "application/vnd.cncf.helm.chart.provenance.v1.prov", provenance(t, key, "x-1.0.0.tgz", []byte("chart")), nil)
	_, err = open(t, source.Options{Contents: mirrors}).Chart(t.Context(), want)
	require.NoError(t, err)
}

// Nothing of an address that may be secret stands in the cache.
func TestTheCacheHasNoSecrets(t *testing.T) {
	noLogins(t)
	dir := t.TempDir()
	server := serve(t, map[string]string{"/x.yaml": "a: b"})
	_, err := open(t, source.Options{Cache: dir}).File(t.Context(), source.File{URL: server.URL + "/x.yaml?token=hunter2"})
	require.NoError(t, err)

	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		require.NotContains(t, string(b)+path, "hunter2")
		return err
	}))
	require.NotZero(t, files)
}

// The provenance file of a chart in a registry is a layer beside it.
func TestProvenanceInRegistry(t *testing.T) {
	noLogins(t)
	key, keyring := signer(t)
	r := newRegistry(t)
	r.push(t, "1.0.0", chartLayer, []byte("chart"))
	want := source.Chart{Name: "oci://" + r.host() + "/charts/x", Version: "1.0.0", PlainHTTP: true, Keyring: keyring}
	_, err := open(t, source.Options{}).Chart(t.Context(), want)
	require.ErrorContains(t, err, "it was pushed without")

	r.addLayer(t, "1.0.0", "application/vnd.cncf.helm.chart.provenance.v1.prov", provenance(t, key, "x-1.0.0.tgz", []byte("chart")), nil)
	_, err = open(t, source.Options{}).Chart(t.Context(), want)
	require.NoError(t, err)
}

// addLayer puts another layer into the manifest of a tag.
func (r *registry) addLayer(t *testing.T, tag, mediaType string, layer []byte, annotations map[string]string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var m map[string]any
	require.NoError(t, json.Unmarshal(r.manifests[tag], &m))
	r.blobs[digest(layer)] = layer
	m["layers"] = append(m["layers"].([]any), map[string]any{"mediaType": mediaType, "digest": digest(layer), "size": len(layer), "annotations": annotations})
	b, err := json.Marshal(m)
	require.NoError(t, err)
	r.manifests[tag], r.manifests[digest(b)] = b, b
}

// cosignKeys are private keys of the kinds that cosign takes, and their files.
func cosignKeys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return map[string]crypto.Signer{"ecdsa": ec, "ed25519": ed, "rsa": rs}
}

func publicKey(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "cosign.pub")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	return file
}

func sign(t *testing.T, key crypto.Signer, message []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(message)
	what, hash := sum[:], crypto.SHA256
	if _, ok := key.(ed25519.PrivateKey); ok {
		what, hash = message, 0
	}
	sig, err := key.Sign(rand.Reader, what, hash)
	require.NoError(t, err)
	return sig
}

// signSimply puts a signature where cosign did until its version 2.
func (r *registry) signSimply(t *testing.T, key crypto.Signer, at, of string) {
	t.Helper()
	payload := []byte(`{"critical": {"identity": {"docker-reference": ""}, "image": {"docker-manifest-digest": "` + of + `"}, "type": "cosign container image signature"}}`)
	tag := strings.Replace(at, ":", "-", 1) + ".sig"
	r.push(t, tag, "other", []byte("x"))
	r.addLayer(t, tag, "application/vnd.dev.cosign.simplesigning.v1+json", payload,
		map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(sign(t, key, payload))})
}

// signByBundle puts a signature where cosign does since its version 3: into a bundle that
// refers to the manifest, here under the tag for registries without an API for that.
func (r *registry) signByBundle(t *testing.T, key crypto.Signer, at, of string) {
	t.Helper()
	const kind = "application/vnd.in-toto+json"
	payload := fmt.Appendf(nil, `{"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://sigstore.dev/cosign/sign/v1", "subject": [{"digest": {"sha256": %q}}]}`, strings.TrimPrefix(of, "sha256:"))
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
	b, err := json.Marshal(map[string]any{"dsseEnvelope": map[string]any{"payload": payload, "payloadType": kind, "signatures": []any{map[string]any{"sig": sign(t, key, message)}}}})
	require.NoError(t, err)
	const bundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	m := r.push(t, "bundle", bundle, b)
	r.mu.Lock()
	defer r.mu.Unlock()
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []any{
		map[string]any{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": m, "size": len(r.manifests[m]), "artifactType": bundle},
	}})
	require.NoError(t, err)
	r.manifests[strings.Replace(at, ":", "-", 1)] = index
}

// A chart that a key has signed with cosign is taken, in the old form and in the new, and
// refused when the signature is missing, by another key, or of another chart.
func TestCosign(t *testing.T) {
	noLogins(t)
	keys := cosignKeys(t)
	fetch := func(r *registry, key crypto.Signer) error {
		_, err := open(t, source.Options{}).Chart(t.Context(), source.Chart{
			Name: "oci://" + r.host() + "/charts/x", Version: "1.0.0", PlainHTTP: true, CosignKey: publicKey(t, key),
		})
		return err
	}
	for name, put := range map[string]func(*registry, *testing.T, crypto.Signer, string, string){"simple": (*registry).signSimply, "bundle": (*registry).signByBundle} {
		for kind, key := range keys {
			t.Run(name+" "+kind, func(t *testing.T) {
				r := newRegistry(t)
				chart := r.push(t, "1.0.0", chartLayer, []byte("chart"))
				require.ErrorContains(t, fetch(r, key), "it has no signature of cosign")
				put(r, t, key, chart, chart)
				require.NoError(t, fetch(r, key))
				for other := range keys {
					if other != kind {
						require.ErrorContains(t, fetch(r, keys[other]), "none of its 1 signatures is by the key")
					}
				}
				put(r, t, key, chart, digest([]byte("another chart")))
				require.ErrorContains(t, fetch(r, key), "none of its 1 signatures is by the key", "a signature of another chart was put there")
			})
		}
	}
	_, err := open(t, source.Options{}).Chart(t.Context(), source.Chart{Name: "x", Repo: serve(t, map[string]string{
		"/index.yaml": "entries: {x: [{name: x, version: 1.0.0, urls: [x.tgz]}]}", "/x.tgz": "chart",
	}).URL, CosignKey: publicKey(t, keys["rsa"])})
	require.ErrorContains(t, err, "cosign signs charts of OCI registries only")
}
