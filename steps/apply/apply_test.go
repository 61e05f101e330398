package apply

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// recorder keeps what an action reports.
type recorder struct {
	mu      sync.Mutex
	reports []runner.Report
}

func (r *recorder) Report(report runner.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, report)
}

func (r *recorder) result(t *testing.T) runner.Report {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.reports)
	last := r.reports[len(r.reports)-1]
	require.Equal(t, runner.TypeResult, last.Type)
	return last
}

// logs are the lines of the step's log.
func (r *recorder) logs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, report := range r.reports {
		if report.Type == runner.TypeLog {
			out = append(out, report.Message)
		}
	}
	return out
}

// fixture is a namespace on the lab, and a session for steps.
type fixture struct {
	lab       *labtest.Lab
	session   *cluster.Session
	namespace string
	// neighbours is what the plan's other steps have.
	neighbours Neighbours
}

func onLab(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) fixture {
	t.Helper()
	lab := labtest.ControlPlane(t)
	api, err := cluster.Connect(t.Context(), lab.Flags(), "kplan/test")
	require.NoError(t, err)
	session, err := api.Session(cluster.Options{Wrap: wrap})
	require.NoError(t, err)
	alone := func(context.Context) (map[Place]string, error) { return nil, nil }
	return fixture{lab, session, lab.Namespace(t), Neighbours{Plan: "plan", Places: alone}}
}

// apply runs a step with the text as its only file. NS in it is the test's namespace.
func (f fixture) apply(t *testing.T, text string, change ...func(*plan.Apply)) (*recorder, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, &runner.TimeoutError{After: time.Minute})
	defer cancel()
	return f.applyIn(ctx, t, text, change...)
}

// write writes f.yaml into a folder of its own.
func (f fixture) write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "f.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "NS", f.namespace)), 0o600))
	return file
}

func (f fixture) applyIn(ctx context.Context, t *testing.T, text string, change ...func(*plan.Apply)) (*recorder, error) {
	t.Helper()
	dir := filepath.Dir(f.write(t, text))
	spec := plan.Apply{Files: []string{"*.yaml"}, Namespace: f.namespace}
	for _, c := range change {
		c(&spec)
	}
	action, err := New(plan.Step{Name: "step", Dir: dir, Apply: &spec}, f.session.Cluster.Namespace(), f.neighbours, nil)
	require.NoError(t, err)
	r := &recorder{}
	return r, action.Run(ctx, f.session, r)
}

func TestApplyTellsWhatChanged(t *testing.T) {
	f := onLab(t, nil)
	const two = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: VALUE}}
---
{apiVersion: v1, kind: Secret, metadata: {name: b, namespace: NS}, stringData: {x: z}}
`
	r, err := f.apply(t, two)
	require.NoError(t, err)
	require.Equal(t, runner.Report{Type: runner.TypeResult, Message: "2 created", Done: 2, Total: 2, Objects: []runner.Applied{
		{Version: "v1", Kind: "ConfigMap", Namespace: f.namespace, Name: "a", Created: true},
		{Version: "v1", Kind: "Secret", Namespace: f.namespace, Name: "b", Created: true},
	}}, r.result(t))

	r, err = f.apply(t, two)
	require.NoError(t, err)
	require.Equal(t, "2 unchanged", r.result(t).Message)
	require.True(t, r.result(t).Unchanged)
	require.Len(t, r.result(t).Objects, 2)

	r, err = f.apply(t, strings.Replace(two, "VALUE", "other", 1))
	require.NoError(t, err)
	require.Equal(t, "1 configured, 1 unchanged", r.result(t).Message)

	cm, err := f.lab.Clientset(t).CoreV1().ConfigMaps(f.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"x": "other"}, cm.Data)
	require.Equal(t, "kplan", cm.ManagedFields[0].Manager)
	require.Equal(t, metav1.ManagedFieldsOperationApply, cm.ManagedFields[0].Operation)
}

func TestApplyManyAtOnce(t *testing.T) {
	f := onLab(t, nil)
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a%d}}\n", i)
	}
	for _, want := range []string{"100 created", "100 unchanged"} {
		r, err := f.apply(t, text.String())
		require.NoError(t, err)
		require.Equal(t, want, r.result(t).Message)
		require.Equal(t, 100, r.reports[len(r.reports)-2].Done, "progress tells n of m")
	}
}

// A file like those that operators publish: everything at once, in an order
// that would not work one by one.
const everything = `
{apiVersion: GROUP/v1, kind: Gizmo, metadata: {name: a, namespace: NS-inner}, spec: {size: 3}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS-inner}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Gizmo, plural: gizmos, singular: gizmo}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
---
{apiVersion: GROUP/v1, kind: Gizmo, metadata: {name: b}, spec: {size: 3}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: NS-inner, namespace: misplaced}}
`

func TestApplyKindsAndNamespacesOfItsOwn(t *testing.T) {
	f := onLab(t, nil)
	text := strings.ReplaceAll(everything, "GROUP", "g"+f.namespace+".kplan.dev")
	t.Cleanup(func() {
		ctx, set := context.WithoutCancel(t.Context()), f.lab.Clientset(t)
		_ = set.CoreV1().Namespaces().Delete(ctx, f.namespace+"-inner", metav1.DeleteOptions{})
		crds := set.CoreV1().RESTClient().Delete().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gizmos.g" + f.namespace + ".kplan.dev")
		_ = crds.Do(ctx).Error()
	})
	ready := func(a *plan.Apply) { a.Wait = plan.WaitReady }
	r, err := f.apply(t, text, ready)
	require.NoError(t, err)
	require.Equal(t, "5 created", r.result(t).Message)
	r, err = f.apply(t, text, ready)
	require.NoError(t, err)
	require.True(t, r.result(t).Unchanged, "%s: %v", r.result(t).Message, r.reports)
	r, err = f.apply(t, strings.ReplaceAll(text, "size: 3", "size: 4"))
	require.NoError(t, err)
	require.Equal(t, "2 configured, 3 unchanged", r.result(t).Message)

	_, err = f.apply(t, "{apiVersion: g"+f.namespace+".kplan.dev/v1, kind: Gizmo, metadata: {name: c}, spec: {sice: 3}}")
	require.ErrorContains(t, err, ".spec.sice: field not declared in schema")
	require.True(t, runner.IsPermanent(err))
}

func TestApplyErrors(t *testing.T) {
	f := onLab(t, nil)
	for name, tt := range map[string]struct {
		text      string
		err       []string
		hint      string
		permanent bool
	}{
		"an unknown kind": {
			"{apiVersion: example.io/v1, kind: Unicorn, metadata: {name: a}}",
			[]string{`f.yaml:1: document 1: Unicorn/a: no matches for kind "Unicorn" in version "example.io/v1"`},
			"is its CustomResourceDefinition installed? a step that installs it belongs in needs", false,
		},
		"several invalid objects": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: A_}}\n---\n{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: []}}\n",
			[]string{"2 objects failed: ", `ConfigMap "A_" is invalid`, `Service "a" is invalid`},
			"", true,
		},
		"a field that does not exist": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dta: {x: y}}",
			[]string{"ConfigMap/NS/a: ", ".dta: field not declared in schema"},
			"a field's name or type is wrong: see kubectl explain", true,
		},
		"a namespace that does not exist": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS-missing}}",
			[]string{`ConfigMap/NS-missing/a: namespaces "NS-missing" not found`},
			`create the namespace "NS-missing" in a step before, or with create_namespace: true`, false,
		},
		"a Secret whose value is invalid": {
			"{apiVersion: v1, kind: Secret, type: kubernetes.io/dockerconfigjson, metadata: {name: s}, stringData: {.dockerconfigjson: hunter2}}",
			[]string{`Secret "s" is invalid: data[.dockerconfigjson]: FieldValueInvalid`},
			"", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.apply(t, tt.text)
			for _, want := range tt.err {
				require.ErrorContains(t, err, strings.ReplaceAll(want, "NS", f.namespace))
			}
			require.NotContains(t, err.Error(), "hunter2")
			require.Equal(t, strings.ReplaceAll(tt.hint, "NS", f.namespace), runner.HintOf(err))
			if tt.permanent {
				require.True(t, runner.IsPermanent(err))
			}
		})
	}
}

func TestApplyConflict(t *testing.T) {
	f := onLab(t, nil)
	maps := f.lab.Clientset(t).CoreV1().ConfigMaps(f.namespace)
	_, err := maps.Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"theirs"}}`),
		metav1.PatchOptions{FieldManager: "helm"})
	require.NoError(t, err)
	const ours = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: ours}}"
	_, err = f.apply(t, ours)
	require.ErrorContains(t, err, `conflict with "helm": .data.x`)
	require.Equal(t, `owned by "helm"; take the fields over with force_conflicts: true, or leave them out`, runner.HintOf(err))
	require.True(t, runner.IsPermanent(err))

	r, err := f.apply(t, ours, func(a *plan.Apply) { a.ForceConflicts = true })
	require.NoError(t, err)
	require.Equal(t, "1 configured", r.result(t).Message)
}

func TestApplyForbidden(t *testing.T) {
	f := onLab(t, nil)
	flags, nobody := f.lab.Flags(), "nobody"
	flags.Impersonate = &nobody
	api, err := cluster.Connect(t.Context(), flags, "kplan/test")
	require.NoError(t, err)
	f.session, err = api.Session(cluster.Options{})
	require.NoError(t, err)
	_, err = f.apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
	require.True(t, runner.IsPermanent(err))
	require.Equal(t, "check with: kubectl auth can-i patch configmaps -n "+f.namespace, runner.HintOf(err))
}

// An object that is being deleted is applied to no avail: it is made anew once it is gone.
func TestApplyToAnObjectThatIsBeingDeleted(t *testing.T) {
	f := onLab(t, nil)
	maps := f.lab.Clientset(t).CoreV1().ConfigMaps(f.namespace)
	old, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"kplan.dev/test"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, maps.Delete(t.Context(), "a", metav1.DeleteOptions{}))

	released := make(chan error, 1)
	go func() { // ends with the watch, which sees the apply
		w, err := maps.Watch(t.Context(), metav1.SingleObject(old.ObjectMeta))
		if err == nil {
			for e := range w.ResultChan() {
				if cm, ok := e.Object.(*corev1.ConfigMap); ok && cm.Data["x"] == "z" {
					break
				}
			}
			w.Stop()
			_, err = maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		released <- err
	}()
	r, err := f.apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: z}}")
	require.NoError(t, err)
	require.NoError(t, <-released)
	require.Equal(t, "1 created", r.result(t).Message)
	require.Equal(t, []string{"ConfigMap/" + f.namespace + "/a is being deleted: waiting until it is gone"}, r.logs())
	cm, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEqual(t, old.UID, cm.UID)
	require.Equal(t, map[string]string{"x": "z"}, cm.Data)
}

func TestApplyWaitsUntilReady(t *testing.T) {
	f := onLab(t, nil)
	jobs := f.lab.Clientset(t).BatchV1().Jobs(f.namespace)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Second, &runner.TimeoutError{After: 4 * time.Second})
	defer cancel()
	const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
`
	ready := func(a *plan.Apply) { a.Wait = plan.WaitReady }
	_, err := f.applyIn(ctx, t, job, ready)
	timeout := (*runner.TimeoutError)(nil)
	require.ErrorAs(t, err, &timeout)
	require.ErrorContains(t, err, "timed out after 4s waiting for job/a to be ready: job/a: ")

	_, err = jobs.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	r, err := f.apply(t, job, ready)
	require.NoError(t, err)
	require.True(t, r.result(t).Unchanged, "the field is somebody else's: %s", r.result(t).Message)
}

func TestNewTellsFaultsInFiles(t *testing.T) {
	f := onLab(t, nil)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\nfoo: bar\n"), 0o600))
	for name, tt := range map[string]struct {
		spec plan.Apply
		err  string
	}{
		"a file that is missing": {plan.Apply{Files: []string{"nowhere.yaml"}}, "nowhere.yaml"},
		"a document that is no object": {
			plan.Apply{Files: []string{"a.yaml"}}, "a.yaml:3: document 2: has neither apiVersion nor kind: is it a Kubernetes object?",
		},
		"an object that is given twice": {
			plan.Apply{Files: []string{"a.yaml"}, Objects: []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}}},
			"objects[0]: ConfigMap/a is given twice, first in a.yaml:1: document 1",
		},
		"nothing": {plan.Apply{}, "there is no object to apply"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(plan.Step{Dir: dir, Apply: &tt.spec}, f.session.Cluster.Namespace(), f.neighbours, nil)
			require.ErrorContains(t, err, tt.err)
			require.True(t, runner.IsPermanent(err))
		})
	}
}
