package steps_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// loadPlans writes plans by the names of their files, and reads plan.yaml.
func loadPlans(t *testing.T, in load.Options, files map[string]string) *plan.Plan {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		text = "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: test}\n" + text
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	p, err := load.File(filepath.Join(dir, "plan.yaml"), in)
	require.NoError(t, err)
	return p
}

// A variable of an included plan may be in a cluster that no step works on.
func TestVariableOfAnIncludedPlanElsewhere(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	_, err := lab.Clientset(t).CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "registry"}, StringData: map[string]string{"token": "s3cr3t-pass"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	inner := `
vars: {token: {secret: {cluster: vault, namespace: ` + ns + `, name: registry, key: token}}}
clusters: {vault: {kubeconfig: ` + lab.Kubeconfig + `}}
steps:
- {name: login, apply: {namespace: ` + ns + `, objects: [{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {token: "${{ vars.token }}"}}]}}
`
	for name, outer := range map[string]string{
		"a cluster of its own":           "steps: [{name: sub, include: {plan: inner.yaml}}]",
		"a cluster of the including one": "clusters: {here: {kubeconfig: " + lab.Kubeconfig + "}}\nsteps: [{name: sub, include: {plan: inner.yaml, clusters: {vault: here}}}]",
	} {
		t.Run(name, func(t *testing.T) {
			p := loadPlans(t, load.Options{}, map[string]string{"plan.yaml": outer, "inner.yaml": inner})
			s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test"})
			require.NoError(t, err)
			defer s.Close()
			r := &runner.Runner{Resolve: s.Resolve, ReadInputs: s.ReadInputs, Redact: p.Sensitive.Text}

			_, err = r.Run(t.Context(), p)

			require.NoError(t, err)
			login, err := lab.Clientset(t).CoreV1().Secrets(ns).Get(t.Context(), "login", metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, "s3cr3t-pass", string(login.Data["token"]))
		})
	}
}

// The cluster of a variable is needed by those who ask it, and by nobody else.
func TestClustersThatAreUsed(t *testing.T) {
	t.Parallel()
	const (
		vars = `
vars: {token: {secret: {cluster: vault, name: registry, key: token}}}
clusters: {vault: {kubeconfig: vault.kubeconfig}, there: {kubeconfig: there.kubeconfig}}
`
		asks   = "\n- {name: asks, cluster: there, wait: {resource: \"cm/${{ vars.token }}\", for: create}}"
		alone  = "there: context c, https://there.example"
		silent = "\n- {name: silent, cluster: there, wait: {resource: cm/x, for: create}}"
	)
	for name, tt := range map[string]struct {
		set   []string
		steps string
		uses  string
	}{
		"a step asks for the variable":  {nil, asks, "there: context c, https://there.example; vault: context c, https://vault.example"},
		"a value overrides it":          {[]string{"token=x"}, asks, alone},
		"no step asks for the variable": {nil, silent, alone},
		"the step that asks is skipped": {nil, asks + silent, alone},
	} {
		t.Run(name, func(t *testing.T) {
			p := loadPlans(t, load.Options{Set: tt.set}, map[string]string{"plan.yaml": vars + "steps:" + tt.steps})
			if len(p.Steps) > 1 {
				p.Steps[0].Skip = "not picked"
			}
			for _, cluster := range []string{"vault", "there"} {
				if cluster == "vault" && tt.uses == alone {
					continue // its kubeconfig must not be missed
				}
				require.NoError(t, os.WriteFile(filepath.Join(p.Dir, cluster+".kubeconfig"), []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://`+cluster+`.example"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`), 0o600))
			}
			s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: genericclioptions.NewConfigFlags(false), UserAgent: "kplan-test"})
			require.NoError(t, err)
			defer s.Close()
			require.Equal(t, tt.uses, s.Cluster())
		})
	}
}
