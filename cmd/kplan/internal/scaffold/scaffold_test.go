package scaffold_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/scaffold"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/steps/analyze"
	"github.com/kplan-dev/kplan/steps/helm"
)

func TestBlankIsValid(t *testing.T) {
	p, err := load.Parse("plan.yaml", scaffold.Blank("plan.schema.json"), load.Options{})
	require.NoError(t, err)
	require.Len(t, p.Steps, 4)
}

func TestReleases(t *testing.T) {
	text, secrets, err := scaffold.Releases("My Cluster", "plan.schema.json", []analyze.Release{
		{
			Installed: helm.Installed{
				Name: "eso", Namespace: "external-secrets", Chart: "external-secrets", Version: "1.10", Status: "deployed",
				Sources: []string{"https://external-secrets.io\n- name: no step"},
				Values: map[string]any{
					"installCRDs": true, "replicas": 3.0, "big": 1000000.0, "half": 0.5, "text": "no",
					"template": "${{ not ours }}", "empty": map[string]any{}, "none": nil,
				},
			},
		},
		{
			Installed: helm.Installed{
				Name: "grafana", Namespace: "a", Chart: "grafana", Version: "8.0.0", Status: "failed",
				Values: map[string]any{
					"adminPassword": "hunter2", "admin": map[string]any{"existingSecret": "grafana"},
					"env": []any{map[string]any{"name": "DB_PASSWORD", "value": "hunter3"}, map[string]any{"name": "MODE", "value": "fast"}},
				},
			},
			Needs: []analyze.ReleaseNeed{{Index: 0, Why: "its webhooks judge 2 objects of this release"}},
		},
		{Installed: helm.Installed{Name: "grafana", Namespace: "b", Chart: "grafana", Version: "8.0.0", Status: "deployed"}},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"grafana_adminPassword", "grafana_env_DB_PASSWORD"}, secrets)
	require.Equal(t, want, string(text))

	// Once it is filled in, it is a plan.
	_, err = load.Parse("plan.yaml", text, load.Options{})
	faults, ok := errors.AsType[document.Diagnostics](err)
	require.True(t, ok)
	require.Len(t, faults, 5, "two variables, and where three charts come from: %v", err)
}

const want = `# yaml-language-server: $schema=plan.schema.json
apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata:
  name: my-cluster
  description: the Helm releases of a cluster
# Values that look like secrets. Give each with --set NAME=VALUE, --var-file FILE, env: VARIABLE or secret: {…}.
vars:
  grafana_adminPassword:
    description: adminPassword of grafana
    sensitive: true
  grafana_env_DB_PASSWORD:
    description: env.DB_PASSWORD of grafana
    sensitive: true
steps:
  - name: eso
    helm:
      chart: external-secrets
      repo: # FILL IN: the address of the chart's repository; of a registry, write chart: oci://… and no repo. The chart names https://external-secrets.io - name: no step
      version: "1.10"
      namespace: external-secrets
      create_namespace: true
      values:
        big: 1000000
        empty: {}
        half: 0.5
        installCRDs: true
        none: null
        replicas: 3
        template: $${{ not ours }}
        text: "no"
  # The release was not deployed but failed when this was written.
  - name: grafana
    needs:
      - eso # its webhooks judge 2 objects of this release
    helm:
      chart: grafana
      repo: # FILL IN: the address of the chart's repository; of a registry, write chart: oci://… and no repo
      version: 8.0.0
      namespace: a
      create_namespace: true
      values:
        admin:
          existingSecret: grafana
        adminPassword: ${{ vars.grafana_adminPassword }}
        env:
          - name: DB_PASSWORD
            value: ${{ vars.grafana_env_DB_PASSWORD }}
          - name: MODE
            value: fast
  - name: b-grafana
    helm:
      release: grafana
      chart: grafana
      repo: # FILL IN: the address of the chart's repository; of a registry, write chart: oci://… and no repo
      version: 8.0.0
      namespace: b
      create_namespace: true
`
