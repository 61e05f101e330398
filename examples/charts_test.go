package examples_test

import (
	"fmt"
	"io"
	"log"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// Helm's library logs each link that it follows, and the lab's charts have one each.
func init() { log.SetOutput(io.Discard) }

// The lab's charts live in a module of their own, which pins another Kubernetes
// than the Helm SDK does, so they are linted and rendered here.
func TestLabCharts(t *testing.T) {
	for _, tt := range []struct {
		chart, values string
		kinds         string // of the rendered objects, in Helm's order, each once
	}{
		{
			chart: "race",
			kinds: "ServiceAccount Secret ClusterRole ClusterRoleBinding Service Deployment Gadget MutatingWebhookConfiguration ValidatingWebhookConfiguration Widget",
		},
		{
			chart: "race", values: "certificate.mode=self,webhook.mutating=false,guarded.certificates=1,operator.crash=2",
			kinds: "ServiceAccount ClusterRole ClusterRoleBinding Service Deployment Certificate Gadget ValidatingWebhookConfiguration Widget",
		},
		{
			chart: "operator", values: "conversion=true",
			kinds: "ServiceAccount Secret CustomResourceDefinition ClusterRole ClusterRoleBinding Service Deployment MutatingWebhookConfiguration ValidatingWebhookConfiguration",
		},
		{chart: "guarded", values: "gizmos=1,oldGizmos=1,denied=true,certificates=1", kinds: "Certificate Gadget Gizmo Widget"},
		{
			chart: "external-secrets",
			kinds: "ServiceAccount Secret CustomResourceDefinition ClusterRole ClusterRoleBinding Service Deployment ValidatingWebhookConfiguration",
		},
		{
			chart: "cert-manager", values: "crds.enabled=true",
			kinds: "ServiceAccount CustomResourceDefinition ClusterRole ClusterRoleBinding Service Deployment MutatingWebhookConfiguration ValidatingWebhookConfiguration",
		},
		{
			chart: "kcm",
			kinds: "ServiceAccount Secret ClusterRole ClusterRoleBinding Service Deployment MutatingWebhookConfiguration ValidatingWebhookConfiguration",
		},
		{chart: "kgst", values: "chart=minio:14.1.2", kinds: "ServiceTemplate"},
		{chart: "dynamo-crds", kinds: "CustomResourceDefinition"},
		{chart: "dynamo-platform", kinds: "ServiceAccount ClusterRole ClusterRoleBinding Service Deployment ValidatingWebhookConfiguration"},
		{
			chart: "dynamo-platform", values: "dynamo-operator.webhook.certManager.enabled=true",
			kinds: "ServiceAccount ClusterRole ClusterRoleBinding Service Deployment Certificate Issuer ValidatingWebhookConfiguration",
		},
		{chart: "kof", kinds: "HelmRelease HelmRepository"},
		{chart: "kof-regional", kinds: "MultiClusterService"},
		{chart: "kof-child", kinds: "MultiClusterService"},
		{chart: "kof-collectors", kinds: "OpenTelemetryCollector"},
		{
			chart: "kof-mothership", values: "victoria-metrics-operator.enabled=false,kcm.installTemplates=true",
			kinds: "GrafanaDatasource HelmRepository ServiceTemplate VMAlert VMAlertmanager VMCluster",
		},
		{
			chart: "kof-operators",
			kinds: "ServiceAccount Secret ClusterRole ClusterRoleBinding Service Deployment MutatingWebhookConfiguration ValidatingWebhookConfiguration",
		},
		{
			chart: "kof-mothership",
			kinds: "ServiceAccount Secret ClusterRole ClusterRoleBinding Service Deployment GrafanaDatasource VMAlert VMAlertmanager VMCluster ValidatingWebhookConfiguration",
		},
	} {
		t.Run(tt.chart+" "+tt.values, func(t *testing.T) {
			dir := filepath.Join("..", "lab", "charts", tt.chart)
			values, err := strvals.Parse(tt.values)
			require.NoError(t, err)

			lint := action.NewLint().Run([]string{dir}, values)
			require.Empty(t, lint.Errors)
			for _, m := range lint.Messages {
				require.Less(t, m.Severity, support.WarningSev, m.Error())
			}
			require.Equal(t, tt.kinds, strings.Join(kinds(t, render(t, dir, values)), " "))
		})
	}
}

// A misspelt value of the race is an error, not a silent default.
func TestRaceRefusesUnknownValues(t *testing.T) {
	c, err := loader.Load("../lab/charts/race")
	require.NoError(t, err)
	for _, bad := range []string{"listendelay=1s", "listenDelay=soon", "operator.lyinghealth=true", "certificate.mode=none"} {
		values, err := strvals.Parse(bad)
		require.NoError(t, err)
		require.Error(t, chartutil.ValidateAgainstSchema(c, merged(t, c.Values, values)), bad)
	}
}

func merged(t *testing.T, base, over map[string]any) map[string]any {
	t.Helper()
	text, err := yaml.Marshal(base)
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(text, &values))
	return chartutil.MergeTables(over, values)
}

func render(t *testing.T, dir string, values map[string]any) string {
	t.Helper()
	c, err := loader.Load(dir)
	require.NoError(t, err)
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.DryRun, install.ClientOnly = true, true
	install.ReleaseName, install.Namespace = "rel", "ns"
	release, err := install.Run(c, values)
	require.NoError(t, err)
	return release.Manifest
}

func kinds(t *testing.T, manifest string) []string {
	t.Helper()
	var out []string
	docs := releaseutil.SplitManifests(manifest)
	for i := range len(docs) {
		var head releaseutil.SimpleHead
		require.NoError(t, yaml.Unmarshal([]byte(docs[fmt.Sprintf("manifest-%d", i)]), &head))
		if len(out) == 0 || out[len(out)-1] != head.Kind {
			out = append(out, head.Kind)
		}
	}
	return out
}
