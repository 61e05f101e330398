package source_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/redact"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/sops"
)

// folder writes the files of a txtar, and copies those that sops made beside them.
func folder(t *testing.T, text string, encrypted ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(text)).Files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f.Name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600))
	}
	for _, name := range encrypted {
		src, err := os.ReadFile(filepath.Join("sops/testdata", filepath.Base(name)))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), src, 0o600))
	}
	return dir
}

// reading is a store with the keys of the tests, and what it found to be secret.
func reading(t *testing.T, o source.Options) (*source.Store, *redact.Set) {
	t.Helper()
	o.Cache, o.Secrets = t.TempDir(), &redact.Set{}
	o.Keys = sops.NewKeyring(func(name string) (string, bool) { return "sops/testdata/keys.txt", name == "SOPS_AGE_KEY_FILE" })
	s := source.New(o)
	t.Cleanup(s.Close)
	return s, o.Secrets
}

func applying(dir string, a plan.Apply) plan.Step { return plan.Step{Name: "s", Dir: dir, Apply: &a} }

// names are those of texts.
func names(texts []source.Text) (all []string) {
	for _, text := range texts {
		all = append(all, text.Name)
	}
	return all
}

func TestManifestsOfFiles(t *testing.T) {
	dir := folder(t, "-- a.yaml --\na: 1\n-- m/b.yaml --\nb: 1\n-- m/c.yaml --\nc: 1\n", "secret.yaml")
	s, secrets := reading(t, source.Options{})
	got, err := s.Manifests(t.Context(), applying(dir, plan.Apply{Files: []string{"m/*.yaml", "a.yaml", "m/b.yaml", "secret.yaml"}}))
	require.NoError(t, err)
	require.Equal(t, []string{"m/b.yaml", "m/c.yaml", "a.yaml", "secret.yaml"}, names(got), "each file once")
	require.Equal(t, []any{"apply", "files", 1}, got[2].Field)
	require.Contains(t, string(got[3].Bytes), "tok-5f3a9c")
	require.NotContains(t, string(got[3].Written), "tok-5f3a9c", "it is what may be shown")
	require.Equal(t, bytes.Count(got[3].Written, []byte("\n")), bytes.Count(got[3].Bytes, []byte("\n")))
	require.Equal(t, "(sensitive) (sensitive)", secrets.Text("tok-5f3a9c hunter2-hunter2"), "without base64 too")

	_, err = s.Manifests(t.Context(), applying(dir, plan.Apply{Files: []string{"gone.yaml", "a.yaml"}}))
	require.ErrorContains(t, err, `file "gone.yaml"`)
	require.True(t, runner.IsPermanent(err))
	require.Equal(t, got[2].Bytes, []byte("a: 1\n"))
}

// Without keys an encrypted file is no manifest: the error says where, and what to do.
func TestManifestsWithoutKey(t *testing.T) {
	dir := folder(t, "", "secret.yaml")
	s := source.New(source.Options{Cache: t.TempDir(), Keys: sops.NewKeyring(func(string) (string, bool) { return "", false })})
	t.Setenv("HOME", t.TempDir())
	_, err := s.Manifests(t.Context(), applying(dir, plan.Apply{Files: []string{"secret.yaml"}}))
	require.ErrorContains(t, err, ": there is no age key at hand to decrypt it")
	require.Contains(t, runner.HintOf(err), "SOPS_AGE_KEY_FILE")
	require.True(t, runner.IsPermanent(err))
}

func TestValues(t *testing.T) {
	dir := folder(t, "-- plain.yaml --\na: 1\n", "values.yaml")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("b: 2\n")) }))
	t.Cleanup(server.Close)
	s, secrets := reading(t, source.Options{})
	step := plan.Step{Dir: dir, Helm: &plan.Helm{}}
	for name, want := range map[string]string{
		"plain.yaml":  "a: 1\n",
		"values.yaml": `user: "app"`,
		server.URL + "/v.yaml#" + digestOf("b: 2\n"): "b: 2\n",
	} {
		got, err := s.Values(t.Context(), step, name)
		require.NoError(t, err)
		require.Contains(t, string(got.Bytes), want)
	}
	require.Equal(t, "(sensitive)", secrets.Text("9007199254740993"))

	step.Evaluated = map[string][]byte{filepath.Join(dir, "plain.yaml"): []byte("{a: 2}")}
	got, err := s.Values(t.Context(), step, "plain.yaml")
	require.NoError(t, err)
	require.Equal(t, "{a: 2}", string(got.Bytes))
	require.Equal(t, "a: 1\n", string(got.Written))
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// A file from a web server is what its digest says, or is refused.
func TestManifestsByDigest(t *testing.T) {
	const text = "a: 1\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
	t.Cleanup(server.Close)
	s, _ := reading(t, source.Options{})
	got, err := s.Manifests(t.Context(), applying("", plan.Apply{Files: []string{server.URL + "/a.yaml#" + digestOf(text)}}))
	require.NoError(t, err)
	require.Equal(t, text, string(got[0].Bytes))
	require.Equal(t, server.URL+"/a.yaml", got[0].Name)

	_, err = s.Manifests(t.Context(), applying("", plan.Apply{Files: []string{server.URL + "/a.yaml#" + digestOf("other")}}))
	require.ErrorContains(t, err, "a.yaml has another content than the plan wants: "+digestOf(text))
	require.True(t, runner.IsPermanent(err))

	_, err = s.Manifests(t.Context(), applying("", plan.Apply{Files: []string{server.URL + "/a.yaml"}}))
	require.ErrorContains(t, err, "is not protected on its way")
	require.True(t, source.Fetches(applying("", plan.Apply{Files: []string{server.URL}})))
	require.False(t, source.Fetches(applying("", plan.Apply{Files: []string{"a.yaml"}, Kustomize: "x"})))
}

// Standard input is read once, for all steps that name it.
func TestManifestsOfStdin(t *testing.T) {
	s, _ := reading(t, source.Options{Stdin: strings.NewReader("a: 1\n")})
	for range 2 {
		got, err := s.Manifests(t.Context(), applying("", plan.Apply{Files: []string{"-"}}))
		require.NoError(t, err)
		require.Equal(t, []source.Text{{Name: "standard input", Field: []any{"apply", "files", 0}, Bytes: []byte("a: 1\n")}}, got)
	}
	for name, o := range map[string]source.Options{"there is nothing on": {}, "is empty": {Stdin: strings.NewReader("")}} {
		s, _ := reading(t, o)
		_, err := s.Manifests(t.Context(), applying("", plan.Apply{Files: []string{"-"}}))
		require.ErrorContains(t, err, name)
		require.Contains(t, runner.HintOf(err), "each run reads it anew, one with --resume too")
	}
}

const overlay = `
-- over/kustomization.yaml --
resources: [secret.yaml, map.yaml]
nameSuffix: -x
generatorOptions: {disableNameSuffixHash: true}
secretGenerator: [{name: made, files: [token.txt]}]
-- over/map.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
`

// An overlay's files are decrypted before kustomize sees them: resources, and what
// generators read.
func TestManifestsOfOverlay(t *testing.T) {
	dir := folder(t, overlay, "over/secret.yaml", "over/token.txt")
	s, secrets := reading(t, source.Options{})
	got, err := s.Manifests(t.Context(), applying(dir, plan.Apply{Kustomize: "./over"}))
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, "overlay ./over", got[0].Name)
	require.Equal(t, []any{"apply", "kustomize"}, got[0].Field)
	for _, want := range []string{"name: pull-x", "token: tok-5f3a9c", "name: made-x", "token.txt: dGhl"} {
		require.Contains(t, string(got[0].Bytes), want)
	}
	require.NotContains(t, string(got[0].Bytes), "sops")
	require.NotContains(t, secrets.Text("dGhlIHdob2xlIGZpbGUKaXMgYSBzZWNyZXQK"), "dGhlIHdob2xl", "as the generated Secret has it")

	dir = folder(t, strings.ReplaceAll(overlay, "token.txt", "secret.env"), "over/secret.yaml", "over/secret.env")
	_, err = s.Manifests(t.Context(), applying(dir, plan.Apply{Kustomize: "over"}))
	require.ErrorContains(t, err, "secret.env is encrypted with SOPS in its dotenv form, which kplan does not read")

	dir = folder(t, "-- over/kustomization.yaml --\nresources: [https://example.com/a.yaml]\n")
	_, err = s.Manifests(t.Context(), applying(dir, plan.Apply{Kustomize: "over"}))
	require.ErrorContains(t, err, `over/kustomization.yaml:1:13: "https://example.com/a.yaml" would be fetched`)
}

// packed is an archive as flux push artifact makes it.
func packed(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, f := range txtar.Parse([]byte(text)).Files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o600, Size: int64(len(f.Data)), Typeflag: tar.TypeReg}))
		_, err := w.Write(f.Data)
		require.NoError(t, err)
	}
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "link.yaml", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}))
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

// fluxArtifact serves one artifact, as Flux pushes it, under any name and tag. It
// returns the registry's host.
func fluxArtifact(t *testing.T, layer []byte) string {
	t.Helper()
	blobs := map[string][]byte{}
	put := func(b []byte) map[string]any {
		blobs[digestOf(string(b))] = b
		return map[string]any{"digest": digestOf(string(b)), "size": len(b)}
	}
	config, content := put([]byte("{}")), put(layer)
	config["mediaType"], content["mediaType"] = "application/vnd.cncf.flux.config.v1+json", "application/vnd.cncf.flux.content.v1.tar+gzip"
	const media = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": media, "config": config, "layers": []any{content}})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b := blobs[path.Base(req.URL.Path)]
		if strings.Contains(req.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", media)
			b = manifest
		}
		w.Header().Set("Docker-Content-Digest", digestOf(string(b)))
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(b))
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestManifestsOfArtifact(t *testing.T) {
	host := fluxArtifact(t, packed(t, `
-- ./app/a.yaml --
a: 1
-- app/b.json --
{"b": 1}
-- app/README.md --
text
-- app/deep/c.yml --
c: 1
-- other/d.yaml --
d: 1
-- ../outside.yaml --
x: 1
`))
	s, _ := reading(t, source.Options{})
	at := "oci://" + host + "/org/app:1.0"
	for name, want := range map[string][]string{
		at:                    {"app/a.yaml", "app/b.json", "app/deep/c.yml", "other/d.yaml"},
		at + "//app":          {"app/a.yaml", "app/b.json", "app/deep/c.yml"},
		at + "//app/a.yaml":   {"app/a.yaml"},
		at + "//app/*.yaml":   {"app/a.yaml"},
		at + "//app/deep/":    {"app/deep/c.yml"},
		at + "//other/d.yaml": {"other/d.yaml"},
	} {
		got, err := s.Manifests(t.Context(), applying("", plan.Apply{Files: []string{name}, PlainHTTP: true}))
		require.NoError(t, err, name)
		for i := range want {
			want[i] = at + "//" + want[i]
		}
		require.Equal(t, want, names(got), name)
	}
	_, err := s.Manifests(t.Context(), applying("", plan.Apply{Files: []string{at + "//nowhere"}, PlainHTTP: true}))
	require.ErrorContains(t, err, "//nowhere has no manifests there")
}

// An overlay in an artifact is built from memory.
func TestManifestsOfArtifactOverlay(t *testing.T) {
	host := fluxArtifact(t, packed(t, "-- base/kustomization.yaml --\nresources: [m.yaml]\n-- base/m.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"+
		"-- prod/kustomization.yaml --\nresources: [../base]\nnamePrefix: prod-\n"))
	s, _ := reading(t, source.Options{})
	at := "oci://" + host + "/org/app:1.0"
	got, err := s.Manifests(t.Context(), applying("", plan.Apply{Kustomize: at + "//prod", PlainHTTP: true}))
	require.NoError(t, err)
	require.Contains(t, string(got[0].Bytes), "name: prod-m")

	_, err = s.Manifests(t.Context(), applying("", plan.Apply{Files: []string{at}, PlainHTTP: true}))
	require.ErrorContains(t, err, "has an overlay, base/kustomization.yaml, which takes building")
	require.Equal(t, "name it in kustomize: "+at+"//base", runner.HintOf(err))

	_, err = s.Manifests(t.Context(), applying("", plan.Apply{Kustomize: at + "//gone", PlainHTTP: true}))
	require.ErrorContains(t, err, "there is no folder")

	host = fluxArtifact(t, []byte("no archive"))
	_, err = s.Manifests(t.Context(), applying("", plan.Apply{Files: []string{"oci://" + host + "/a:1"}, PlainHTTP: true}))
	require.ErrorContains(t, err, "is no archive with gzip")
}

// Where nothing was given to read with, files are read as they are.
func TestManifestsOfNobody(t *testing.T) {
	dir := folder(t, "-- a.yaml --\na: 1\n", "secret.yaml")
	var s *source.Store
	got, err := s.Manifests(t.Context(), applying(dir, plan.Apply{Files: []string{"a.yaml", "secret.yaml"}}))
	require.NoError(t, err)
	require.Contains(t, string(got[1].Bytes), "sops:")
	for _, name := range []string{"-", "https://example.com/a", "oci://example.com/a"} {
		_, err := s.Manifests(t.Context(), applying(dir, plan.Apply{Files: []string{name}}))
		require.Error(t, err)
	}
}
