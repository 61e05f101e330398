package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/internal/labtest"
)

var (
	definitions       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	helmReleases      = schema.GroupVersionResource{Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"}
	externalArtifacts = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "externalartifacts"}
)

// flux installs by a HelmRelease, which Flux's helm-controller reconciles. Its chart is
// an ExternalArtifact: the controller fetches it from a server of the benchmark, and no
// time goes to Flux's source-controller.
type flux struct {
	name string
	// strategy is what the HelmRelease says of failed installs, in YAML.
	strategy    string
	url, digest string
}

func (f flux) String() string { return f.name }

// Those of Helm within the controller do not name themselves.
func (flux) agents() []string { return []string{"helm-controller/", "Go-http-client/"} }

// fluxes start helm-controller for the benchmark; none without it on the PATH.
func fluxes(b *testing.B, lab *ownLab) []tool {
	b.Helper()
	if _, err := exec.LookPath("helm-controller"); err != nil {
		return nil
	}
	dir := b.TempDir()
	_, err := command(b.Context(), nil, "helm", "package", filepath.Join(labtest.Charts(), "race"), "--destination", dir)
	require.NoError(b, err)
	packages, err := filepath.Glob(filepath.Join(dir, "race-*.tgz"))
	require.NoError(b, err)
	require.Len(b, packages, 1)
	data, err := os.ReadFile(packages[0])
	require.NoError(b, err)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	b.Cleanup(server.Close)
	define(b, lab)

	ctx, stop := context.WithCancelCause(context.Background())
	controller := exec.CommandContext(ctx, "helm-controller", "--watch-all-namespaces", "--feature-gates=ExternalArtifact=true",
		"--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--log-level=error")
	controller.Env = append(os.Environ(), "KUBECONFIG="+lab.Kubeconfig, "RUNTIME_NAMESPACE=default")
	controller.Stdout, controller.Stderr = os.Stderr, os.Stderr
	require.NoError(b, controller.Start())
	b.Cleanup(func() {
		stop(errors.New("the races are over"))
		_ = controller.Wait()
	})
	one := flux{url: server.URL + "/" + filepath.Base(packages[0]), digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data))}
	remedied, retried := one, one
	remedied.name, remedied.strategy = "Flux, `remediation: {retries: 5}`", "{remediation: {retries: 5}}"
	retried.name, retried.strategy = "Flux, `RetryOnFailure`, each 2 s", "{strategy: {name: RetryOnFailure, retryInterval: 2s}}"
	return []tool{remedied, retried}
}

// define brings the definition of HelmRelease, and of the kinds of sources that
// helm-controller watches: as they are served, and no more.
func define(b *testing.B, lab *ownLab) {
	b.Helper()
	client, err := dynamic.NewForConfig(apart(lab.config, "bench-watch"))
	require.NoError(b, err)
	modules, err := command(b.Context(), nil, "go", "list", "-C", "rivals/flux", "-m", "-f", "{{.Dir}}", "github.com/fluxcd/helm-controller")
	require.NoError(b, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(modules), "config", "crd", "bases", "helm.toolkit.fluxcd.io_helmreleases.yaml"))
	require.NoError(b, err)
	texts := []string{string(text)}
	for _, kind := range []string{"HelmChart", "HelmRepository", "OCIRepository", "ExternalArtifact"} {
		plural := strings.Replace(strings.ToLower(kind)+"s", "repositorys", "repositories", 1)
		texts = append(texts, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.source.toolkit.fluxcd.io}
spec:
  group: source.toolkit.fluxcd.io
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]s}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, kind, plural))
	}
	for _, text := range texts {
		var o unstructured.Unstructured
		require.NoError(b, yaml.Unmarshal([]byte(text), &o.Object))
		_, err := client.Resource(definitions).Create(b.Context(), &o, metav1.CreateOptions{})
		require.True(b, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
		require.Eventually(b, func() bool {
			crd, err := client.Resource(definitions).Get(b.Context(), o.GetName(), metav1.GetOptions{})
			return err == nil && condition(crd, "Established") == "True"
		}, time.Minute, 50*time.Millisecond, o.GetName())
	}
}

// condition returns the status of an object's condition; "" when it has none.
func condition(o *unstructured.Unstructured, name string) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c, _ := c.(map[string]any); c["type"] == name {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

func (f flux) install(ctx context.Context, j job) (int, error) {
	client, err := dynamic.NewForConfig(apart(j.lab.config, "bench-watch"))
	if err != nil {
		return 0, err
	}
	if err := f.publish(ctx, client, j); err != nil {
		return 0, err
	}
	if err := f.order(ctx, client, j); err != nil {
		return 0, err
	}
	return f.await(ctx, client, j)
}

// publish makes the chart known, as a controller of sources does.
func (f flux) publish(ctx context.Context, client dynamic.Interface, j job) error {
	in := client.Resource(externalArtifacts).Namespace(j.release)
	made, err := in.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact", "metadata": map[string]any{"name": "race"}, "spec": map[string]any{},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Object["status"] = map[string]any{"artifact": map[string]any{
		"url": f.url, "digest": f.digest, "revision": "0.1.0", "path": "race.tgz", "lastUpdateTime": time.Now().UTC().Format(time.RFC3339),
	}}
	_, err = in.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// order creates the HelmRelease.
func (f flux) order(ctx context.Context, client dynamic.Interface, j job) error {
	text, err := os.ReadFile(j.values)
	if err != nil {
		return err
	}
	release := &unstructured.Unstructured{}
	var values, strategy map[string]any
	if err := errors.Join(yaml.Unmarshal(text, &values), yaml.Unmarshal([]byte(f.strategy), &strategy)); err != nil {
		return err
	}
	release.Object = map[string]any{
		"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": map[string]any{"name": j.release},
		"spec": map[string]any{
			"chartRef": map[string]any{"kind": "ExternalArtifact", "name": "race"}, "releaseName": j.release,
			"interval": "10m", "timeout": bound.String(), "install": strategy, "upgrade": strategy, "values": values,
		},
	}
	_, err = client.Resource(helmReleases).Namespace(j.release).Create(ctx, release, metav1.CreateOptions{})
	return err
}

// await returns how many attempts there were when the HelmRelease is ready, or gave up.
func (f flux) await(ctx context.Context, client dynamic.Interface, j job) (int, error) {
	in := client.Resource(helmReleases).Namespace(j.release)
	attempts := 0
	for {
		if r, err := in.Get(ctx, j.release, metav1.GetOptions{}); err == nil {
			failures, _, _ := unstructured.NestedInt64(r.Object, "status", "failures")
			attempts = max(attempts, int(failures))
			switch {
			case condition(r, "Ready") == "True":
				return attempts + 1, nil
			case condition(r, "Stalled") == "True":
				return attempts, errors.Join(errors.New("the HelmRelease is stalled"), f.withdraw(in, j))
			}
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return attempts, errors.Join(context.Cause(ctx), f.withdraw(in, j))
		}
	}
}

// withdraw takes a HelmRelease back, which the controller would try on and on.
func (flux) withdraw(in dynamic.ResourceInterface, j job) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), bound, errors.New("helm-controller does not let go of the HelmRelease"))
	defer cancel()
	_, err := in.Patch(ctx, j.release, types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return in.Delete(ctx, j.release, metav1.DeleteOptions{})
}
