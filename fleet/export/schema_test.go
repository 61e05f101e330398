package export_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/fleet/export"
	"github.com/kplan-dev/kplan/internal/labtest"
)

// definitions are the modules that have the CustomResourceDefinitions of the engines, and the
// files of these. They are fetched when the test runs.
var definitions = []struct{ module, files string }{
	{"github.com/fluxcd/source-controller@v1.10.1", "config/crd/bases/*.yaml"},
	{"github.com/fluxcd/helm-controller@v1.6.0", "config/crd/bases/*.yaml"},
	{"github.com/fluxcd/kustomize-controller@v1.10.1", "config/crd/bases/*.yaml"},
	{"github.com/argoproj/argo-cd/v3@v3.2.0", "manifests/crds/application*-crd.yaml"},
	{"github.com/argoproj/argo-workflows/v4@v4.0.5", "manifests/base/crds/full/argoproj.io_workflows.yaml"},
	{"github.com/tektoncd/pipeline@v1.9.0", "config/300-crds/300-*.yaml"},
}

// An API server with the definitions of the engines accepts what is made of every archive of
// testdata, and knows each field of it. What these definitions leave open is not looked at:
// the steps of Argo Workflows, which they take as they are, the values of releases, and the
// elements of an ApplicationSet. The expressions in all of it are the engine's own.
func TestAccepted(t *testing.T) {
	lab := labtest.Own(t, "test-export")
	config := lab.Config(t)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(lab.Clientset(t).Discovery()))
	define(t, client)
	for _, name := range archives(t) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			full, err := filepath.Abs(name)
			require.NoError(t, err)
			a, err := txtar.ParseFile(full)
			require.NoError(t, err)
			in := input(t, a)
			for _, target := range export.Targets {
				result, err := export.Export(target, in)
				require.NoError(t, err)
				for _, o := range result.Objects {
					accept(t, client, mapper, o)
				}
			}
		})
	}
	t.Run("refused", func(t *testing.T) { // else the test would prove nothing
		for _, o := range []string{
			`{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, spec: {interval: 1m, chartRef: {kind: OCIRepository, name: a}, upgrade: {retries: 3}}}`,
			`{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, spec: {interval: 1m, prune: true, sourceRef: {kind: GitRepository, name: a}, dependsOn: [{step: a}]}}`,
			`{apiVersion: argoproj.io/v1alpha1, kind: Application, spec: {project: a, source: {repoURL: a}, destination: {}, syncPolicy: {prune: true}}}`,
			`{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, spec: {generators: [], template: {metadata: {}, spec: {project: a, source: {repoURL: a}, destination: {}}}, waves: []}}`,
			`{apiVersion: argoproj.io/v1alpha1, kind: Workflow, spec: {entrypoint: a, templates: [{name: a, containers: {}}]}}`,
			`{apiVersion: tekton.dev/v1, kind: Task, spec: {steps: [{name: a, argumentz: []}]}}`,
		} {
			var object map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(o), &object))
			object["metadata"] = map[string]any{"name": "refused", "namespace": "default"}
			require.Error(t, create(t, client, mapper, object), o)
		}
	})
}

// accept makes an object in a dry run, in which no field may be unknown.
func accept(t *testing.T, client dynamic.Interface, mapper meta.RESTMapper, o map[string]any) {
	t.Helper()
	metadata, is := o["metadata"].(map[string]any)
	require.True(t, is)
	namespace, is := metadata["namespace"].(string)
	require.True(t, is)
	_, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	require.NoError(t, create(t, client, mapper, o), "%v", o)
}

func create(t *testing.T, client dynamic.Interface, mapper meta.RESTMapper, o map[string]any) error {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON(text))
	mapping, err := mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
	require.NoError(t, err)
	_, err = client.Resource(mapping.Resource).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}

// define brings the definitions to the cluster, and waits until it serves their kinds.
func define(t *testing.T, client dynamic.Interface) {
	t.Helper()
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	var names []string
	for _, d := range definitions {
		for _, text := range fetch(t, d.module, d.files) {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(text, &o.Object); err != nil || o.GetKind() != "CustomResourceDefinition" {
				continue
			}
			unstructured.RemoveNestedField(o.Object, "spec", "conversion") // by webhooks that are not there
			_, err := crds.Create(t.Context(), o, metav1.CreateOptions{})
			if !apierrors.IsAlreadyExists(err) {
				require.NoError(t, err, o.GetName())
			}
			names = append(names, o.GetName())
		}
	}
	require.NotEmpty(t, names)
	require.Eventually(t, func() bool {
		for _, name := range names {
			o, err := crds.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			established := false
			for _, c := range conditions {
				m, _ := c.(map[string]any)
				established = established || m["type"] == "Established" && m["status"] == "True"
			}
			if !established {
				return false
			}
		}
		return true
	}, time.Minute, 100*time.Millisecond)
}

// fetch returns files of a module, from the module proxy or the cache of modules. The module
// need not be one that this version of Go builds.
func fetch(t *testing.T, module, files string) [][]byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	var got struct{ Zip, Error string }
	if json.Unmarshal(out, &got) == nil && got.Zip != "" {
		err = nil
	} else if err == nil {
		err = errors.New(got.Error)
	}
	if err != nil {
		unreachable(t, module, err, out)
	}
	r, err := zip.OpenReader(got.Zip)
	require.NoError(t, err)
	defer r.Close()
	var texts [][]byte
	for _, f := range r.File {
		name := strings.TrimPrefix(f.Name, module+"/")
		if matched, err := path.Match(files, name); err != nil || !matched {
			continue
		}
		rc, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(rc)
		require.NoError(t, err)
		require.NoError(t, rc.Close())
		texts = append(texts, bytes.Split(text, []byte("\n---\n"))...)
	}
	require.NotEmpty(t, texts, module)
	return texts
}

// unreachable skips a test whose modules cannot be fetched; where CI is true it fails.
func unreachable(t *testing.T, module string, err error, out []byte) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("fetching %s: %v: %s", module, err, out)
	}
	t.Skipf("fetching %s: %v: %s", module, err, out)
}
