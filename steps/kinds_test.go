package steps_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// Steps whose objects are of kinds that a step before brings wait until the API
// server serves them, whatever that step itself waits for. Another definition has
// the names of the kinds first, so that they are not served at once.
func TestKindsOfAStepBeforeAreAwaited(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"none", "hooks"} {
		t.Run("wait "+wait, func(t *testing.T) {
			t.Parallel()
			lab := labtest.Node(t)
			lab.Operator(t)
			ns := lab.Namespace(t)
			objects := chartOf(t, map[string]string{"gadget.yaml": "{apiVersion: " + ns + ".lab.kplan.dev/v1, kind: Gadget, metadata: {name: chart}}\n"})

			blocker := "blockers." + ns + ".lab.kplan.dev"
			dropDefinitions(t, lab, blocker)
			create(t, lab, strings.Replace(definition(ns+".lab", "blockers", "Blocker", "blocker"), "kind: Blocker", "kind: Blocker, shortNames: [widget, gadget]", 1))
			chart := ownKinds(t, lab, ns)

			out := runPlan(t, lab, ns, `
- name: operator
  helm: {chart: `+chart+`, release: NS, namespace: NS, wait: `+wait+`, values: {listenDelay: 2s}}
- name: widgets
  needs: [operator]
  timeout: 3m
  apply: {objects: [{apiVersion: NS.lab.kplan.dev/v1, kind: Widget, metadata: {name: w, namespace: NS}, spec: {width: 1}}], wait: ready}
- name: gadgets
  needs: [operator]
  timeout: 3m
  helm: {chart: `+objects+`, release: NS-gadgets, namespace: NS}
`, whenAll(t, []string{"widgets", "gadgets"}, isAwaited, func() {
				require.NoError(t, definitions(t, lab).Delete(t.Context(), blocker, metav1.DeleteOptions{}))
			}))

			require.NoError(t, out.err)
			for _, name := range []string{"operator", "widgets", "gadgets"} {
				require.Equal(t, runner.StateSucceeded, out.execution.Step(name).State)
				require.Equal(t, 1, out.execution.Step(name).Attempt)
			}
			require.Equal(t, 1, out.execution.Step("gadgets").Revision)
			require.Contains(t, awaited(out, "widgets"), `waits for kind Widget (`+ns+`.lab.kplan.dev/v1) to be served: step "operator" brings it; `+
				"customresourcedefinition/widgets."+ns+".lab.kplan.dev: not established")
		})
	}
}

// A step beside may bring the kind too; the one that waits says so.
func TestKindsOfAStepBesideAreAwaited(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	chart := chartOf(t, map[string]string{"crd.yaml": definition(ns, "things", "Thing", "thing")})
	dropDefinitions(t, lab, "things."+ns+".kplan.dev")

	out := runPlan(t, lab, ns, `
- name: delay
  timeout: 2m
  wait: {resource: configmap/begin, namespace: NS, for: create}
- name: definitions
  needs: [delay]
  helm: {chart: `+chart+`, release: NS, namespace: NS, wait: none}
- name: objects
  apply: {objects: [{apiVersion: NS.kplan.dev/v1, kind: Thing, metadata: {name: x, namespace: NS}}]}
- name: chart
  helm: {chart: `+chartOf(t, map[string]string{"thing.yaml": "{apiVersion: " + ns + ".kplan.dev/v1, kind: Thing, metadata: {name: thing}}\n"})+`, release: NS-thing, namespace: NS}
`, whenAll(t, []string{"objects", "chart"}, isAwaited, func() { begin(t, lab, ns) }))

	require.NoError(t, out.err)
	for _, name := range []string{"objects", "chart"} {
		require.Contains(t, awaited(out, name), `waits for kind Thing (`+ns+`.kplan.dev/v1) to be served: step "definitions" brings it`)
	}
}

// An operator may define its kinds when it runs: of a step that needs one,
// nobody knows beforehand what kinds there will be.
func TestKindsThatAnOperatorDefinesAreAwaited(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dropDefinitions(t, lab, "oddities."+ns+".kplan.dev")

	out := runPlan(t, lab, ns, `
- name: operator
  apply:
    wait: none
    objects:
    - {apiVersion: apps/v1, kind: Deployment, metadata: {name: operator, namespace: NS}, spec: {selector: {matchLabels: {a: b}},
        template: {metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: x}]}}}}
- name: objects
  needs: [operator]
  timeout: 3m
  apply: {objects: [{apiVersion: NS.kplan.dev/v1, kind: Thing, metadata: {name: x, namespace: NS}}]}
- name: chart
  needs: [operator]
  timeout: 3m
  helm: {chart: `+chartOf(t, map[string]string{"thing.yaml": "{apiVersion: " + ns + ".kplan.dev/v1, kind: Thing, metadata: {name: thing}}\n"})+`, release: NS, namespace: NS}
`, whenAll(t, []string{"objects", "chart"}, isAwaited, func() {
		// Its plural cannot be guessed.
		create(t, lab, definition(ns, "oddities", "Thing", "thing"))
	}))

	require.NoError(t, out.err)
	require.Contains(t, awaited(out, "objects"), `no manifest of the plan brings it, step "operator" may when it runs`)
}

// A kind that nobody can bring fails its step at once, and so does a version
// that the step which brings the kind does not serve.
func TestKindsThatNobodyBringsFailAtOnce(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	for name, tc := range map[string]struct{ object, says string }{
		"a kind":                 {"{apiVersion: NS.kplan.dev/v1, kind: Nothing, metadata: {name: x, namespace: NS}}", "no matches for kind"},
		"a kind of Kubernetes":   {"{apiVersion: apps/v1, kind: Deploymnt, metadata: {name: x, namespace: NS}}", "no matches for kind"},
		"a version of the kind":  {"{apiVersion: NS.kplan.dev/v1beta1, kind: Thing, metadata: {name: x, namespace: NS}}", `step "definitions" brings it in v1 only`},
		"a kind of a later step": {"{apiVersion: NS.kplan.dev/v1, kind: Later, metadata: {name: x, namespace: NS}}", "no matches for kind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			dropDefinitions(t, lab, "things."+ns+".kplan.dev")
			chart := chartOf(t, map[string]string{"crd.yaml": definition(ns, "things", "Thing", "thing")})

			began := time.Now()
			out := runPlan(t, lab, ns, `
- name: definitions
  helm: {chart: `+chart+`, release: NS, namespace: NS}
- name: objects
  needs: [definitions]
  apply: {objects: [`+tc.object+`]}
- name: later
  needs: [objects]
  helm: {chart: `+chartOf(t, map[string]string{"crd.yaml": definition(ns, "laters", "Later", "later")})+`, release: NS-later, namespace: NS}
`)

			require.ErrorContains(t, out.err, tc.says)
			require.NotEmpty(t, runner.HintOf(out.err))
			require.True(t, meta.IsNoMatchError(out.err) || strings.Contains(out.err.Error(), "no matches"), "%v", out.err)
			require.Less(t, time.Since(began), 30*time.Second)
		})
	}
}

// Helm has to know the kinds of a chart's templates before it sends any: that the
// chart defines one of them is no reason to wait, whatever ran before.
func TestAKindOfTheOwnTemplatesFailsAtOnce(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)

	out := runPlan(t, lab, ns, `
- name: operator
  apply: {objects: [{apiVersion: v1, kind: Pod, metadata: {name: operator, namespace: NS}, spec: {containers: [{name: x, image: x}]}}]}
- name: chart
  needs: [operator]
  helm: {chart: `+chartOf(t, map[string]string{
		"crd.yaml":   definition(ns, "things", "Thing", "thing"),
		"thing.yaml": "{apiVersion: " + ns + ".kplan.dev/v1, kind: Thing, metadata: {name: thing}}\n",
	})+`, release: NS, namespace: NS}
`)

	require.ErrorContains(t, out.err, "the step's own chart defines it")
	require.Empty(t, awaited(out, "chart"))
}

// The wait ends with the step's time, and the error says what keeps the kind away.
func TestAKindThatIsNeverServedIsExplained(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dropDefinitions(t, lab, "things."+ns+".kplan.dev", "others."+ns+".kplan.dev")
	create(t, lab, definition(ns, "things", "Thing", "thing"))
	definitions := `
- name: definitions
  helm: {chart: ` + chartOf(t, map[string]string{"crd.yaml": definition(ns, "others", "Other", "thing")}) + `, release: NS, namespace: NS, wait: none}
`
	require.NoError(t, runPlan(t, lab, ns, definitions).err)

	for step, text := range map[string]string{
		"apply": "apply: {objects: [{apiVersion: NS.kplan.dev/v1, kind: Other, metadata: {name: x, namespace: NS}}]}",
		"helm": "helm: {chart: " + chartOf(t, map[string]string{"other.yaml": "{apiVersion: " + ns + ".kplan.dev/v1, kind: Other, metadata: {name: thing}}\n"}) +
			", release: NS-objects, namespace: NS}",
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			out := runPlan(t, lab, ns, definitions+`- name: `+step+`
  needs: [definitions]
  timeout: 20s
  `+text+`
`)

			var timeout *runner.TimeoutError
			require.ErrorAs(t, out.err, &timeout)
			require.ErrorContains(t, out.err, "kind Other ("+ns+".kplan.dev/v1) to be served")
			require.ErrorContains(t, out.err, "not established")
			require.ErrorContains(t, out.err, `"thing" is already in use`)
		})
	}
}

// ownKinds is the lab's chart race without its guarded objects, whose kinds are
// in a group of the test's own, and defined by templates, as many charts do.
func ownKinds(t *testing.T, lab *labtest.Lab, ns string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "race")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(labtest.Charts(), "race"))))
	require.NoError(t, os.Remove(filepath.Join(dir, "templates", "guarded.yaml")))
	var files, crds []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	require.NoError(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(b), "lab.kplan.dev", ns+".lab.kplan.dev")
		if filepath.Base(filepath.Dir(file)) == "crds" {
			require.NoError(t, os.Remove(file))
			name := filepath.Base(file)
			crds = append(crds, strings.TrimSuffix(name, ".yaml")+"."+ns+".lab.kplan.dev")
			file = filepath.Join(dir, "templates", "crd-"+name)
		}
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	require.NotEmpty(t, crds)
	dropDefinitions(t, lab, crds...)
	return dir
}

// definition is a CustomResourceDefinition in a group of the test's own.
func definition(ns, plural, kind, singular string) string {
	return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + `.` + ns + `.kplan.dev}
spec:
  group: ` + ns + `.kplan.dev
  scope: Namespaced
  names: {plural: ` + plural + `, singular: ` + singular + `, kind: ` + kind + `}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
}

func definitions(t *testing.T, lab *labtest.Lab) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	return client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

func create(t *testing.T, lab *labtest.Lab, crd string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(crd), &u.Object))
	_, err := definitions(t, lab).Create(t.Context(), u, metav1.CreateOptions{})
	require.NoError(t, err)
}

// dropDefinitions removes CustomResourceDefinitions at the end of the test.
func dropDefinitions(t *testing.T, lab *labtest.Lab, names ...string) {
	t.Helper()
	api := definitions(t, lab)
	t.Cleanup(func() {
		for _, name := range names {
			_ = api.Delete(context.Background(), name, metav1.DeleteOptions{})
		}
	})
}

// begin makes the ConfigMap for which a plan's first step waits.
func begin(t *testing.T, lab *labtest.Lab, ns string) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "begin"}}}
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	_, err = client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(ns).Create(t.Context(), u, metav1.CreateOptions{})
	require.NoError(t, err)
}

func isAwaited(e runner.Event) bool {
	return e.Type == runner.TypeProgress && strings.Contains(e.Message, "waits for kind")
}

// awaited is what a step said of the kinds that it waited for.
func awaited(r *run, step string) string {
	var all []string
	for _, e := range r.events {
		if e.Step == step && isAwaited(e) {
			all = append(all, e.Message)
		}
	}
	return strings.Join(all, "\n")
}

// whenAll calls do once, in a goroutine of its own, when each of the steps had an
// event that is as it should. The test ends only after it has.
func whenAll(t *testing.T, steps []string, is func(runner.Event) bool, do func()) runner.Observer {
	t.Helper()
	open := map[string]bool{}
	for _, s := range steps {
		open[s] = true
	}
	done := make(chan struct{})
	began := false
	t.Cleanup(func() {
		if began {
			<-done
		}
	})
	return observer(func(e runner.Event) {
		if is(e) {
			delete(open, e.Step)
		}
		if len(open) == 0 && !began {
			began = true
			go func() { // for which the test waits above
				defer close(done)
				do()
			}()
		}
	})
}
