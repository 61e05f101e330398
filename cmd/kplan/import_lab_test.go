//go:build linux

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// importedHelmfile has what an import has to carry over: an environment whose values
// templates read, needs across releases, files of values, values, set, labels, one
// namespace that is there, and one that createNamespace makes. The charts operator and
// guarded are the lab's: the webhooks of the one judge the objects of the other.
const importedHelmfile = `
environments:
  default: {values: [{ns: none, greeting: none}]}
  lab: {values: [lab.yaml]}
---
helmDefaults: {timeout: 120}
releases:
  - name: {{ .Values.ns }}
    namespace: {{ .Values.ns }}
    createNamespace: false
    chart: CHARTS/operator
    wait: true
    labels: {tier: platform}
    values: [operator.yaml]
    set: [{name: listenDelay, value: 1s}, {name: webhook.timeoutSeconds, value: 5}]
  - name: guarded
    namespace: {{ .Values.ns }}
    chart: CHARTS/guarded
    needs: [{{ .Values.ns }}/{{ .Values.ns }}]
    labels: {tier: apps}
    values: [{gadgets: 2}, {widgets: 1}]
  - name: greeting
    namespace: {{ .Values.ns }}-greeting
    chart: ./greeting
    needs: [{{ .Values.ns }}/guarded]
    values: [{greeting: {{ .Values.greeting | quote }}, literal: "{{` + "`{{ .Release.Name }}`" + `}}"}]
    valuesTemplate:
      - greeting: no
        release: "{{` + "`{{ .Release.Name }}`" + `}}"
  - name: farewell
    namespace: {{ .Values.ns }}-greeting
    chart: ./greeting
    needs: [{{ .Values.ns }}-greeting/greeting]
    values: [farewell.yaml, {greeting: "no"}]
    set: [{name: count, value: 3}, {name: list, values: [a, b]}]
`

// importedFiles stand beside it.
var importedFiles = map[string]string{
	"operator.yaml":                    "certificate: {mode: self}\nwebhook: {scope: namespace}\n",
	"farewell.yaml":                    "greeting: bye\ncount: 1\nrelease: farewell\n",
	"greeting/Chart.yaml":              "apiVersion: v2\nname: greeting\nversion: 0.2.0\n",
	"greeting/values.yaml":             "greeting: hello\n",
	"greeting/templates/greeting.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name | quote }}}\ndata: {values: {{ toJson .Values | quote }}}\n",
}

// release is what Helm knows of one.
type release struct {
	Name, Namespace, Chart, Revision, Status string
	Values                                   map[string]any
	Manifest                                 string
}

// A helmfile and the plan that is imported of it install the same releases with the
// same values. Each installs into namespaces of its own. Helmfile runs by kplan hold: it
// has no answer to a webhook whose pod is ready before the cluster routes to it.
func TestImportRoundTrip(t *testing.T) {
	t.Parallel()
	byHelmfile, byPlan := race(t), race(t)
	dir := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for name, text := range importedFiles {
		write(name, text)
	}
	write("lab.yaml", "ns: "+byHelmfile.ns+"\ngreeting: welcome\n")
	write("helmfile.yaml.gotmpl", strings.ReplaceAll(importedHelmfile, "CHARTS", labtest.Charts()))
	helmfile := filepath.Join(dir, "helmfile.yaml.gotmpl")
	plan := filepath.Join(dir, "plan.yaml")

	for _, r := range []*raced{byHelmfile, byPlan} {
		namespaces := r.lab.Clientset(t).CoreV1().Namespaces()
		t.Cleanup(func() { _ = namespaces.Delete(context.Background(), r.ns+"-greeting", metav1.DeleteOptions{}) })
	}
	_, stderr, err := byHelmfile.run([]string{}, labtest.Helmfile(t), "--helm-binary", byHelmfile.helm, "--file", helmfile, "--environment", "lab", "sync")
	require.NoError(t, err, stderr)

	stdout, stderr, err := byPlan.run(nil, "kplan", "import", "helmfile", helmfile, "-o", plan, "--report", "json")
	require.NoError(t, err, stderr)
	var report struct{ Findings []any }
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Empty(t, report.Findings, "all of it is carried over")
	_, stderr, err = byPlan.run(nil, "kplan", "run", plan, "--var-file", filepath.Join(dir, "lab.vars.yaml"), "--set", "ns="+byPlan.ns, "--progress", "plain")
	require.NoError(t, err, stderr)

	want := byHelmfile.installed()
	require.Len(t, want, 4)
	require.Equal(t, want, byPlan.installed())
}

// installed are the releases in the namespaces of the helmfile, which are called NS in all of them.
func (r *raced) installed() []release {
	r.t.Helper()
	helm := func(to any, args ...string) {
		r.t.Helper()
		stdout, stderr, err := r.run(nil, append([]string{r.helm}, args...)...)
		require.NoError(r.t, err, stderr)
		stdout = strings.ReplaceAll(stdout, r.ns, "NS")
		if text, ok := to.(*string); ok {
			*text = stdout
			return
		}
		require.NoError(r.t, json.Unmarshal([]byte(stdout), to))
	}
	var all []release
	for _, ns := range []string{r.ns, r.ns + "-greeting"} {
		var found []release
		helm(&found, "list", "--all", "--namespace", ns, "--output", "json")
		for _, one := range found {
			name := strings.ReplaceAll(one.Name, "NS", r.ns)
			helm(&one.Values, "get", "values", name, "--namespace", ns, "--output", "json")
			helm(&one.Manifest, "get", "manifest", name, "--namespace", ns)
			all = append(all, one)
		}
	}
	return all
}
