package steps_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// logged reports whether a line of a run's log has all of the texts.
func logged(r *run, texts ...string) bool {
	for _, e := range r.of(runner.TypeLog) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(e.Message, text)
		}
		if all {
			return true
		}
	}
	return false
}

// A chart that looks at the cluster is upgraded when what it renders to has changed, and
// the difference is told; else it is left alone.
func TestHelmStepLooksAtTheClusterAgain(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, map[string]string{
		"found.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: found}, data: {
  there: "{{ if lookup "v1" "ConfigMap" .Release.Namespace "theirs" }}yes{{ else }}no{{ end }}",
  thing: "{{ .Capabilities.APIVersions.Has "` + ns + `.kplan.dev/v1/Thing" }}",
  revision: "{{ .Release.Revision }} {{ .Release.IsInstall }}"}}`,
		"NOTES.txt": `{{ randAlphaNum 5 }} {{ (lookup "v1" "ConfigMap" .Release.Namespace "theirs") | toJson }}`,
	})
	step := func() *run {
		out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, wait: hooks}\n")
		require.NoError(t, out.err)
		return out
	}
	core := lab.Clientset(t).CoreV1()
	found := func() map[string]string {
		m, err := core.ConfigMaps(ns).Get(t.Context(), "found", metav1.GetOptions{})
		require.NoError(t, err)
		return m.Data
	}
	step()
	require.Equal(t, runner.StateUnchanged, step().execution.Step("s").State, "an install is rendered as an install")

	_, err := core.ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	looked := step()

	require.Equal(t, 2, looked.execution.Step("s").Revision)
	require.True(t, logged(looked, "renders otherwise on this cluster than as revision 1", "ConfigMap/"+ns+"/found: data.there"))
	require.Equal(t, map[string]string{"there": "yes", "thing": "false", "revision": "2 false"}, found())
	require.Equal(t, runner.StateUnchanged, step().execution.Step("s").State, "an upgrade is rendered as that upgrade")

	dropDefinitions(t, lab, "things."+ns+".kplan.dev")
	create(t, lab, definition(ns, "things", "Thing", "thing"))
	require.Eventually(t, func() bool {
		lists, err := lab.Clientset(t).Discovery().ServerResourcesForGroupVersion(ns + ".kplan.dev/v1")
		return err == nil && len(lists.APIResources) > 0
	}, labWait, labTick)
	require.Equal(t, 3, step().execution.Step("s").Revision)
	require.Equal(t, "true", found()["thing"])

	require.NoError(t, core.ConfigMaps(ns).Delete(t.Context(), "found", metav1.DeleteOptions{}))
	require.Equal(t, 4, step().execution.Step("s").Revision, "what is gone is sent again as it was rendered")
	require.Equal(t, "3 false", found()["revision"])
	require.Equal(t, runner.StateUnchanged, step().execution.Step("s").State, "and rendered as it was then")
}

// A chart that renders by chance is left alone, and what is by chance is named; what else
// changes in the same objects is not.
func TestHelmStepKnowsWhatIsByChance(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, map[string]string{
		"random.yaml": `{{- $ca := genCA "ca" 30 }}
{apiVersion: v1, kind: Secret, metadata: {name: cert}, data: {ca: {{ b64enc $ca.Cert }}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: checked, annotations: {checksum: {{ $ca.Cert | sha256sum }}, at: "{{ now | unixEpoch }}"}}, data: {
  there: "{{ if lookup "v1" "ConfigMap" .Release.Namespace "theirs" }}yes{{ else }}no{{ end }}"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: "named-{{ randAlphaNum 6 | lower }}"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: test, annotations: {helm.sh/hook: test}}, stringData: {word: {{ randAlphaNum 12 }}}}
`,
	})
	step := func() *run {
		out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, wait: hooks}\n")
		require.NoError(t, out.err)
		return out
	}
	core := lab.Clientset(t).CoreV1()
	cert := func() string {
		s, err := core.Secrets(ns).Get(t.Context(), "cert", metav1.GetOptions{})
		require.NoError(t, err)
		return string(s.Data["ca"])
	}
	step()
	made := cert()

	again := step()

	require.Equal(t, runner.StateUnchanged, again.execution.Step("s").State)
	require.Equal(t, made, cert())
	require.True(t, logged(again, "rendered otherwise each time", "ConfigMap/"+ns+"/checked", "1 more"), "%v", again.of(runner.TypeLog))

	_, err := core.ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	changed := step()

	require.Equal(t, 2, changed.execution.Step("s").Revision)
	require.True(t, logged(changed, "renders otherwise on this cluster than as revision 1: ConfigMap/"+ns+"/checked: data.there"), "%v", changed.of(runner.TypeLog))
	require.NotEqual(t, made, cert(), "all of it is rendered anew, so that its parts fit together")
}

// A chart that is the same and that the Helm command made something else of is sent again.
func TestHelmStepUndoesAnotherRender(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	c := read(t, "testdata/charts/changed-chart.txtar")
	s := c.side(t, lab, labtest.Helm(t))
	s.byKplan(t, "one.yaml", "chart", false)
	before := s.objects(t)
	// The labels of the revision, kplan's digest of the chart among them, go over to the next.
	s.run(t, "upgrade", "rel", s.dir+"/chart2", "-f", s.dir+"/one.yaml", "--version", "0.1.0")
	require.NotEqual(t, before, s.objects(t))

	s.byKplan(t, "one.yaml", "chart", false)

	generations := regexp.MustCompile(`(?m)^ *generation: \d+\n`)
	require.Equal(t, generations.ReplaceAllString(s.text(t, before), ""), generations.ReplaceAllString(s.text(t, s.objects(t)), ""))
}
