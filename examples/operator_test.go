package examples_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/strvals"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/internal/labtest"
)

const (
	patience = 3 * time.Minute // for pods on a busy machine
	interval = 200 * time.Millisecond
)

// The stand-in operator makes the API server say, word for word, what it says
// about real operators (kubernetes/apiserver: pkg/admission/plugin/webhook).
// Every fault lasts, so that no test depends on how fast pods start.
func TestOperatorOnNode(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)

	const self = "certificate.mode=self,"
	tests := []struct {
		name, values string
		want         string // of the error; "": admitted
	}{
		{"works", "", ""},
		{"crashes once", "operator.crash=1", ""},
		{"injects its CA", self + "operator.injectDelay=1s", ""},
		{"denies", "operator.answer=deny", `admission webhook "validate.race.lab.kplan.dev" denied the request: `},
		{"answers 404", "operator.answer=404", "failed to call webhook: the server could not find the requested resource"},
		{"answers 429", "operator.answer=429", "failed to call webhook: the server has received too many requests and has asked us to try again later"},
		{"answers 500", "operator.answer=500", "failed to call webhook: an error on the server ("},
		{"answers nonsense", "operator.answer=badjson", "failed to call webhook: couldn't get version/kind; json parse error"},
		{"hangs", "operator.answer=hang", "context deadline exceeded"},
		{"closes connections", "operator.answer=close", ": EOF"},
		{"speaks no TLS", "operator.answer=plainhttp", "http: server gave HTTP response to HTTPS client"},
		{"does not listen but is ready", "listenDelay=1h,operator.lyingHealth=true", "connect: connection refused"},
		{"has no certificate yet", self + "operator.certDelay=1h,operator.listenEarly=true,operator.lyingHealth=true", "remote error: tls: internal error"},
		{"is not trusted yet", self + "operator.injectDelay=1h,operator.lyingHealth=true", "x509: certificate signed by unknown authority"},
		{"has an expired certificate", self + "operator.certFault=expired", "x509: certificate has expired or is not yet valid"},
		{"has another name's certificate", "certificate.san=other.ns.svc", "x509: certificate is valid for other.ns.svc, not "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			helmInstall(t, lab, ns, "listenDelay=0s,guarded.gadgets=0,guarded.widgets=0,webhook.mutating=false,webhook.timeoutSeconds=2,"+tt.values)
			if tt.want == "" || tt.name == "does not listen but is ready" {
				ready(t, client, ns)
			}
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				_, err := create(t, client, ns)
				if tt.want == "" {
					require.NoError(c, err)
				} else {
					require.ErrorContains(c, err, tt.want)
				}
			}, patience, interval)
		})
	}
}

// The operator gives defaults, sets Ready, and fills a certificate's Secret.
func TestOperatorReconciles(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	ns := lab.Namespace(t)
	helmInstall(t, lab, ns,
		"listenDelay=0s,guarded.gadgets=1,guarded.widgets=0,guarded.certificates=1,operator.issueDelay=1s,operator.readyDelay=100ms")

	for _, resource := range []string{"gadgets", "certificates"} {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			obj, err := client.Resource(labResource(resource)).Namespace(ns).Get(t.Context(), ns+"-0", metav1.GetOptions{})
			require.NoError(c, err)
			observed, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
			require.Equal(c, obj.GetGeneration(), observed)
			conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
			require.NotEmpty(c, conditions)
			require.Equal(c, "True", conditions[0].(map[string]any)["status"])
		}, patience, interval)
	}
	secret, err := lab.Clientset(t).CoreV1().Secrets(ns).Get(t.Context(), ns+"-0-tls", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, secret.Data, 3)

	require.EventuallyWithT(t, func(c *assert.CollectT) {
		obj, err := create(t, client, ns)
		require.NoError(c, err)
		require.Equal(c, ns, obj.GetAnnotations()["lab.kplan.dev/mutated-by"])
		tier, _, _ := unstructured.NestedString(obj.Object, "spec", "tier")
		require.Equal(c, "standard", tier)
	}, patience, interval)
}

func labResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "lab.kplan.dev", Version: "v1", Resource: name}
}

// create asks the API server, and through it the webhook, for a dry run.
func create(t *testing.T, client dynamic.Interface, ns string) (*unstructured.Unstructured, error) {
	t.Helper()
	return client.Resource(labResource("widgets")).Namespace(ns).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "lab.kplan.dev/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": "probe"},
		"spec":       map[string]any{"width": int64(1)},
	}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// ready waits for the operator's Deployment.
func ready(t *testing.T, client dynamic.Interface, ns string) {
	t.Helper()
	deployments := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		obj, err := deployments.Namespace(ns).Get(t.Context(), ns, metav1.GetOptions{})
		require.NoError(c, err)
		n, _, _ := unstructured.NestedInt64(obj.Object, "status", "availableReplicas")
		require.EqualValues(c, 1, n)
	}, patience, interval)
}

// helmInstall installs the race chart as a release that is called like its
// namespace, without waiting for anything, and uninstalls it in the end. No
// object may race with the webhook.
func helmInstall(t *testing.T, lab *labtest.Lab, ns, set string) {
	t.Helper()
	config := helmOf(t, lab, ns)
	c, err := loader.Load(filepath.Join(labtest.Charts(), "race"))
	require.NoError(t, err)
	values, err := strvals.Parse(set)
	require.NoError(t, err)
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace = ns, ns
	t.Cleanup(func() { _, _ = action.NewUninstall(config).Run(ns) })
	_, err = install.RunWithContext(t.Context(), c, values)
	require.NoError(t, err)
}

// helmOf is Helm as its own command sets it up.
func helmOf(t *testing.T, lab *labtest.Lab, ns string) *action.Configuration {
	t.Helper()
	helmInit.Lock()
	defer helmInit.Unlock()
	flags := lab.Flags()
	flags.Namespace = &ns
	config := new(action.Configuration)
	require.NoError(t, config.Init(flags, ns, "secret", func(string, ...any) {}))
	return config
}

// helmInit guards Helm's set-up, which writes package variables.
var helmInit sync.Mutex
