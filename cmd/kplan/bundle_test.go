package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// counted is the lab's registry behind an address of its own, which counts requests and
// answers until it is closed.
func counted(t *testing.T, registry string) (address string, asked *atomic.Int64, closed func()) {
	t.Helper()
	asked = new(atomic.Int64)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), asked, s.Close
}

// pushImage pushes an image for two platforms, and returns the manifest of linux/amd64.
func pushImage(t *testing.T, address string) ocispec.Descriptor {
	t.Helper()
	x := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}
	x.SchemaVersion = 2
	at := strings.LastIndex(address, ":")
	for _, arch := range []string{"amd64", "arm64"} {
		desc := labtest.Push(t, address+"-"+arch,
			labtest.Layer{MediaType: ocispec.MediaTypeImageConfig, Content: []byte(`{"os":"linux","architecture":"` + arch + `"}`)},
			labtest.Layer{MediaType: ocispec.MediaTypeImageLayerGzip, Content: []byte("the program for " + arch)})
		desc.Platform = &ocispec.Platform{OS: "linux", Architecture: arch}
		x.Manifests = append(x.Manifests, desc)
	}
	text, err := json.Marshal(x)
	require.NoError(t, err)
	repository, err := remote.NewRepository(address[:at])
	require.NoError(t, err)
	repository.PlainHTTP = true
	require.NoError(t, repository.PushReference(t.Context(), content.NewDescriptorFromBytes(x.MediaType, text), bytes.NewReader(text), address[at+1:]))
	return x.Manifests[0]
}

// A bundle is made where there is a registry, and is run where there is none: nothing is
// asked for what it has.
func TestBundle(t *testing.T) {
	lab, registry := labtest.ControlPlane(t), labtest.Registry(t)
	ns := lab.Namespace(t)
	t.Setenv("KUBECONFIG", lab.Kubeconfig)
	t.Setenv("KPLAN_CACHE", "off")
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	labtest.PushChart(t, registry+"/"+ns+"/settings:1.0.0", settings("settings", "1.0.0", "first"))
	amd64 := pushImage(t, registry+"/"+ns+"/app:1.0")
	near, asked, closed := counted(t, registry)
	dir := inFolder(t, map[string]string{
		"shared/values.yaml": "text: from the values file\n",
		"production.yaml":    "version: ^1.0\n",
		"apps/plan.yaml": fmt.Sprintf(`apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: %s}
vars: {version: {type: string, required: true}, token: {env: KPLAN_TEST_TOKEN, sensitive: true}}
steps:
- name: s
  helm:
    chart: oci://%s/%s/settings
    version: ${{ vars.version }}
    plain_http: true
    namespace: %s
    values_files: [../shared/values.yaml]
- name: local
  helm: {chart: ./chart, namespace: %s, wait: none}
- name: token
  apply: {objects: [{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: %s}, stringData: {token: "${{ vars.token }}"}}]}
`, ns, near, ns, ns, ns, ns),
		"apps/chart/Chart.yaml":      "apiVersion: v2\nname: local\nversion: 0.1.0\n",
		"apps/chart/boards/one.json": "{}",
		"apps/chart/templates/objects.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: local, annotations: {board: {{ .Files.Get "boards/one.json" | quote }}}}
spec:
  replicas: 0
  selector: {matchLabels: {app: local}}
  template: {metadata: {labels: {app: local}}, spec: {containers: [{name: app, image: "` + near + "/" + ns + `/app:1.0"}]}}
`,
	})
	plan, vars := filepath.Join(dir, "apps", "plan.yaml"), filepath.Join(dir, "production.yaml")
	file, again := filepath.Join(t.TempDir(), "plan.tar"), filepath.Join(t.TempDir(), "again.tar")

	t.Setenv("KPLAN_TEST_TOKEN", "s3cr3t-t0ken")
	out, stderr := ends(t, 0, "bundle", plan, "-o", file, "--var-file", vars, "--images", "--platform", "linux/amd64")
	require.Contains(t, out, "1 source fetched, 1 image, sha256:", stderr)
	ends(t, 0, "bundle", plan, "-o", again, "--var-file", vars, "--images", "--platform", "linux/amd64")
	require.True(t, textOf(t, file) == textOf(t, again), "the same inputs make the same bundle")
	require.NotContains(t, textOf(t, file), "s3cr3t-t0ken", "what the environment has is in no bundle")

	out, _ = ends(t, 0, "bundle", "inspect", file, "-o", "json")
	var listed struct {
		Digest string
		Images []struct{ Name, Digest string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &listed))
	require.Equal(t, amd64.Digest.String(), listed.Images[0].Digest)
	out, _ = ends(t, 0, "bundle", "inspect", file)
	require.Contains(t, out, "apps/plan.lock.yaml")

	// From here on the chart's registry is not there.
	require.NoError(t, os.RemoveAll(dir))
	before := asked.Load()
	ends(t, 0, "validate", file)
	ends(t, 0, "run", file, "--locked", "--progress", "plain")
	require.Equal(t, before, asked.Load(), "nothing is fetched")
	object, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "s", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "from the values file", object.Data["text"])

	// On another cluster it installs without any.
	closed()
	away := labtest.Node(t)
	_, err = away.Clientset(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	require.NoError(t, err)
	defer func() {
		_ = away.Clientset(t).CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{})
	}()
	t.Setenv("KUBECONFIG", away.Kubeconfig)
	ends(t, 0, "run", file, "--locked", "--progress", "plain")
	object, err = away.Clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "s", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "from the values file", object.Data["text"])
	t.Setenv("KUBECONFIG", lab.Kubeconfig)

	// In a registry it is the same bundle; a digest says which one is meant.
	address := "oci://" + registry + "/" + ns + "/plans:v1"
	out, _ = ends(t, 0, "bundle", "push", file, address, "--images-to", registry+"/mirror")
	require.Contains(t, out, address+"@"+listed.Digest)
	require.Contains(t, out, registry+"/mirror/"+ns+"/app:1.0")
	out, _ = ends(t, 0, "diff", address+"@"+listed.Digest)
	require.Empty(t, out)
	_, stderr = ends(t, 2, "run", address+"@"+amd64.Digest.String(), "--progress", "plain")
	require.Contains(t, stderr, "fetching the bundle")
	require.Equal(t, before, asked.Load(), "nothing is fetched")

	_, stderr = ends(t, 2, "lock", file)
	require.Contains(t, stderr, "is a bundle, whose lock file is not written")
	ends(t, 0, "lock", file, "--check")

	// What it was not made with, it does not have.
	_, stderr = ends(t, 1, "run", file, "--set", "version=2.0.0", "--progress", "plain")
	require.Contains(t, stderr, "the bundle does not have chart oci://"+near)
	if runtime.GOOS == "linux" {
		left, err := os.ReadDir(temporary)
		require.NoError(t, err)
		for _, e := range left {
			require.NotContains(t, e.Name(), "kplan-bundle-", "what was unpacked is gone")
		}
	}
}

// What would put a secret, or nothing useful, into a bundle is refused.
func TestBundleRefuses(t *testing.T) {
	const head = "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: x}\nvars: {token: {type: string, sensitive: true, default: ''}}\nsteps:\n- name: a\n"
	dir := inFolder(t, map[string]string{
		"plan.yaml":     head + "  apply: {files: [a.yaml]}\n",
		"absolute.yaml": head + "  apply: {files: [DIR/a.yaml]}\n",
		"a.yaml":        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"secrets.yaml":  "token: s3cr3t\n",
		"claims.yaml":   "token: s3cr3t\nsops: {mac: none, lastmodified: '2026-01-02T03:04:05Z', age: []}\n",
	})
	absolute := filepath.Join(dir, "absolute.yaml")
	require.NoError(t, os.WriteFile(absolute, []byte(strings.ReplaceAll(textOf(t, absolute), "DIR", dir)), 0o600))
	plan, file := filepath.Join(dir, "plan.yaml"), filepath.Join(t.TempDir(), "plan.tar")
	overridden := []string{"--var-file", filepath.Join(dir, "secrets.yaml"), "--set", "token=x"}
	for want, args := range map[string][]string{
		`secrets.yaml has the sensitive variable "token" in plain text`: append([]string{"bundle", plan, "-o", file}, overridden...),
		"by an absolute path":               {"bundle", absolute, "-o", file},
		"the name of a bundle ends in .tar": {"bundle", plan, "-o", "json"},
		"--platform is for --images":        {"bundle", plan, "--platform", "linux/amd64"},
		`"linux" is no platform`:            {"bundle", plan, "--images", "--platform", "linux"},
		"make a bundle by":                  {"run", file},
		"is a bundle already":               {"bundle", file},
	} {
		_, stderr := ends(t, 2, args...)
		require.Contains(t, stderr, want, "%v", args)
	}
	require.NoFileExists(t, file)
	for _, values := range []string{"secrets.yaml", "claims.yaml"} {
		_, stderr := ends(t, 2, "bundle", plan, "-o", file, "--var-file", filepath.Join(dir, values))
		require.NotContains(t, stderr, "s3cr3t")
		require.NoFileExists(t, file, values)
	}
}

// What a step reads by an absolute path is not there where the bundle is run, whichever
// field names it.
func TestBundleRefusesAbsolutePaths(t *testing.T) {
	for field, step := range map[string]string{
		"set_file":  "helm: {chart: ./chart, namespace: x, set_file: {text: DIR/a.yaml}}",
		"keyring":   "helm: {chart: 'oci://registry.example.com/x', version: 1.0.0, namespace: x, verify: {keyring: DIR/a.yaml}}",
		"key":       "helm: {chart: 'oci://registry.example.com/x', version: 1.0.0, namespace: x, verify: {cosign: {key: DIR/a.yaml}}}",
		"kustomize": "apply: {kustomize: DIR/overlay}",
		"delete":    "delete: {files: [DIR/a.yaml]}",
		"accept":    "webhook: {configuration: x, canary: {accept: [DIR/a.yaml]}}",
		"mutate":    "webhook: {configuration: x, canary: {mutate: [{file: DIR/a.yaml, expect: 'has(object.metadata.labels)'}]}}",
	} {
		t.Run(field, func(t *testing.T) {
			dir := inFolder(t, map[string]string{
				"a.yaml":                     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
				"overlay/kustomization.yaml": "resources: []\n",
				"chart/Chart.yaml":           "apiVersion: v2\nname: x\nversion: 0.1.0\n",
			})
			plan := filepath.Join(dir, "plan.yaml")
			text := "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: x}\nsteps:\n- name: a\n  " + strings.ReplaceAll(step, "DIR", dir) + "\n"
			require.NoError(t, os.WriteFile(plan, []byte(text), 0o600))

			_, stderr := ends(t, 2, "bundle", plan, "-o", filepath.Join(dir, "plan.tar"))

			require.Contains(t, stderr, "by an absolute path")
		})
	}
}

// Sensitive values are in a bundle only as SOPS encrypted them, be its key at hand or not.
func TestBundleKeepsSecrets(t *testing.T) {
	sealed, err := filepath.Abs(filepath.Join("..", "..", "source", "sops", "testdata"))
	require.NoError(t, err)
	dir := inFolder(t, map[string]string{"plan.yaml": `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: x}
vars:
  apiVersion: {default: ''}
  kind: {default: ''}
  metadata: {default: {}}
  type: {default: ''}
  data: {default: {}, sensitive: true}
  stringData: {default: {}, sensitive: true}
  token: {type: string, sensitive: true, default: ''}
steps:
- name: a
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}}]}
`})
	plan, file := filepath.Join(dir, "plan.yaml"), filepath.Join(t.TempDir(), "plan.tar")
	for _, keys := range []string{"keys.txt", "other.txt"} {
		t.Setenv("SOPS_AGE_KEY_FILE", filepath.Join(sealed, keys))
		_, stderr := ends(t, 0, "bundle", plan, "-o", file, "--var-file", filepath.Join(sealed, "mac-only.yaml"), "--set", " token =s3cr3t")
		require.Contains(t, stderr, "give the run the sensitive variables: token")
		text := textOf(t, file)
		require.Contains(t, text, "ENC[AES256_GCM,")
		require.NotContains(t, text, "s3cr3t")
	}
}

// Of a chart around the plan a bundle has what Helm loads, and no secrets.
func TestBundleOfItsFolder(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"plan.yaml": `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: x}
clusters: {far: {kubeconfig: far.conf}}
repositories: {near: {url: "https://charts.example.com", cert_file: client.crt, key_file: client.key}}
steps:
- name: a
  helm: {chart: ., namespace: x}
`,
		"Chart.yaml":              "apiVersion: v2\nname: x\nversion: 0.1.0\n",
		"boards/one.json":         "{}",
		"templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
		".helmignore":             ".env\nprivate/\n",
		".env":                    "s3cr3t",
		"private/notes":           "s3cr3t",
		"far.conf":                "s3cr3t",
		"client.crt":              "s3cr3t",
		"client.key":              "s3cr3t",
		"home.conf":               "{apiVersion: v1, kind: Config, preferences: {extensions: [{name: s3cr3t, extension: {}}]}}",
	})
	require.NoError(t, os.Symlink("client.key", filepath.Join(dir, "link")))
	t.Setenv("KUBECONFIG", filepath.Join(dir, "home.conf"))
	plan, file := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "plan.tar")
	ends(t, 0, "bundle", plan, "-o", file)
	first := textOf(t, file)
	require.NotContains(t, first, "s3cr3t")
	out, _ := ends(t, 0, "bundle", "inspect", file)
	for _, name := range []string{".helmignore", "boards/one.json", "templates/settings.yaml"} {
		require.Contains(t, out, name)
	}
	for _, name := range []string{".env", "private/notes", "far.conf", "home.conf", "link", "plan.tar"} {
		require.NotContains(t, strings.Fields(out), name)
	}
	ends(t, 0, "bundle", plan, "-o", file)
	require.True(t, first == textOf(t, file), "the bundle of before is not in it")
}
