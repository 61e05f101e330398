package wait

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	require.NoError(t, u.UnmarshalJSON(raw))
	return u
}

const certificate = `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: tls, generation: 2}
spec: {secretName: tls, dnsNames: [a, b], empty: ""}
status:
  revision: 3
  conditions:
  - {type: Ready, status: "False", reason: Issuing, message: no issuer}
  - {type: Old, status: "True", observedGeneration: 1}
`

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		condition, object string
		state             watch.ReadingState
		reason            string
	}{
		"nothing there":              {"condition=Ready", "", watch.Waiting, "not found"},
		"create":                     {"create", certificate, watch.Reached, "exists"},
		"create, nothing there":      {"create", "", watch.Waiting, "not found"},
		"delete":                     {"delete", "", watch.Reached, "is gone"},
		"delete, nobody asked":       {"delete", certificate, watch.Waiting, "still exists, nobody has asked to delete it"},
		"delete, finalizers":         {"delete", `{apiVersion: v1, kind: Pod, metadata: {name: x, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [a, b]}}`, watch.Waiting, "being deleted, finalizers: a, b"},
		"condition that is not met":  {"condition=Ready", certificate, watch.Waiting, "Ready is False: Issuing no issuer"},
		"condition without case":     {"condition=ready=false", certificate, watch.Reached, "Ready is False: Issuing no issuer"},
		"condition that is missing":  {"condition=Other", certificate, watch.Waiting, "has no condition Other yet"},
		"condition of the past":      {"condition=Old", certificate, watch.Waiting, "Old is of generation 1, the object is at 2"},
		"no conditions":              {"condition=Ready", `{apiVersion: v1, kind: Pod, metadata: {name: x}}`, watch.Waiting, "has no conditions yet"},
		"condition that cannot come": {"condition=Complete", `{apiVersion: batch/v1, kind: Job, metadata: {name: x}, status: {conditions: [{type: Failed, status: "True", message: too often}]}}`, watch.Failed, "Failed is True: too often"},
		"condition Failed of a Job":  {"condition=Failed", `{apiVersion: batch/v1, kind: Job, metadata: {name: x}, status: {conditions: [{type: Failed, status: "True"}]}}`, watch.Reached, "Failed is True"},
		"path with value":            {"jsonpath={.status.revision}=3", certificate, watch.Reached, "{.status.revision} is 3"},
		"path with another value":    {"jsonpath={.status.revision}=4", certificate, watch.Waiting, "{.status.revision} is 3"},
		"path with filter":           {`jsonpath={.status.conditions[?(@.type=="Ready")].status}=False`, certificate, watch.Reached, `{.status.conditions[?(@.type=="Ready")].status} is False`},
		"path that gives something":  {"jsonpath={.spec.secretName}", certificate, watch.Reached, "{.spec.secretName} is tls"},
		"path that gives the empty":  {"jsonpath={.spec.empty}", certificate, watch.Reached, "{.spec.empty} is "},
		"path that gives nothing":    {"jsonpath={.status.notAfter}", certificate, watch.Waiting, "{.status.notAfter} gives nothing yet"},
		"path out of bounds":         {"jsonpath={.spec.dnsNames[5]}", certificate, watch.Waiting, "{.spec.dnsNames[5]} cannot be evaluated yet: array index out of bounds: index 5, length 2"},
		"path into a Secret":         {"jsonpath={.data.token}", `{apiVersion: v1, kind: Secret, metadata: {name: x}, data: {token: aHVudGVyMg==}}`, watch.Reached, "{.data.token} is set"},
		"wrong value in a Secret":    {"jsonpath={.data.token}=eA==", `{apiVersion: v1, kind: Secret, metadata: {name: x}, data: {token: aHVudGVyMg==}}`, watch.Waiting, "{.data.token} has another value"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := plan.Wait{For: tt.condition}.Condition()
			require.NoError(t, err)
			judge, err := judgeOf(c)
			require.NoError(t, err)
			require.Equal(t, watch.Reading{State: tt.state, Reason: tt.reason}, judge(object(t, tt.object)))
		})
	}
}

func TestTarget(t *testing.T) {
	for name, tt := range map[string]struct {
		spec plan.Wait
		want watch.Target
		err  string
	}{
		"a name":               {plan.Wait{Resource: "deploy/x"}, watch.Target{Type: "deploy", Name: "x", Namespace: "default"}, ""},
		"a group":              {plan.Wait{Resource: "certificates.v1.cert-manager.io/x", Namespace: "app"}, watch.Target{Type: "certificates.v1.cert-manager.io", Name: "x", Namespace: "app"}, ""},
		"a selector":           {plan.Wait{Resource: "pods", Selector: "app in (x, y)"}, watch.Target{Type: "pods", Selector: "app in (x, y)", Namespace: "default"}, ""},
		"neither":              {plan.Wait{Resource: "pods"}, watch.Target{}, `"pods" names no object`},
		"both":                 {plan.Wait{Resource: "pods/x", Selector: "a=b"}, watch.Target{}, "name and selector exclude each other"},
		"no name":              {plan.Wait{Resource: "pods/"}, watch.Target{}, `"pods/" is not TYPE/NAME`},
		"no type":              {plan.Wait{Resource: "/x"}, watch.Target{}, "the type is missing"},
		"a path":               {plan.Wait{Resource: "pods/x/log"}, watch.Target{}, `"pods/x/log" is not TYPE/NAME`},
		"several types":        {plan.Wait{Resource: "pods,services", Selector: "a=b"}, watch.Target{}, `"pods,services" is not one type; a wait step waits for one`},
		"a malformed selector": {plan.Wait{Resource: "pods", Selector: "a in"}, watch.Target{}, `selector "a in": unable to parse requirement`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := targetOf(tt.spec, "default")
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

// script is a Reporter that acts on what is reported: by message, once each.
type script struct {
	mu      sync.Mutex
	on      map[string]func()
	reports []runner.Report
}

func (s *script) Report(r runner.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = append(s.reports, r)
	for text, do := range s.on {
		if strings.Contains(r.Message, text) {
			delete(s.on, text)
			do()
		}
	}
}

func TestWait(t *testing.T) {
	lab := labtest.ControlPlane(t)
	api, err := cluster.Connect(t.Context(), lab.Flags(), "kplan/test")
	require.NoError(t, err)
	session, err := api.Session(cluster.Options{})
	require.NoError(t, err)
	set := lab.Clientset(t)
	namespace := lab.Namespace(t)
	maps := set.CoreV1().ConfigMaps(namespace)
	create := func(name string) func() {
		return func() {
			_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
	run := func(t *testing.T, spec plan.Wait, on map[string]func()) (runner.Report, error) {
		t.Helper()
		spec.Namespace = namespace
		action, err := New(spec, session.Cluster.Namespace())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, &runner.TimeoutError{After: time.Minute})
		defer cancel()
		s := &script{on: on}
		err = action.Run(ctx, session, s)
		return s.reports[len(s.reports)-1], err
	}

	t.Run("create", func(t *testing.T) {
		spec := plan.Wait{Resource: "cm/made", For: "create"}
		r, err := run(t, spec, map[string]func(){"not found": create("made")})
		require.NoError(t, err)
		want := runner.Report{Type: runner.TypeResult, Object: "cm/" + namespace + "/made", Message: "cm/made: exists"}
		require.Equal(t, want, r)

		r, err = run(t, spec, nil)
		require.NoError(t, err)
		want.Unchanged = true
		require.Equal(t, want, r, "there was nothing to wait for")
	})
	t.Run("jsonpath", func(t *testing.T) {
		_, err := run(t, plan.Wait{Resource: "configmaps/valued", For: "jsonpath={.data.phase}=Running"}, map[string]func(){
			"not found": create("valued"),
			"gives nothing yet": func() {
				_, err := maps.Patch(t.Context(), "valued", types.MergePatchType, []byte(`{"data":{"phase":"Running"}}`), metav1.PatchOptions{})
				require.NoError(t, err)
			},
		})
		require.NoError(t, err)
	})
	t.Run("condition", func(t *testing.T) {
		pods := set.CoreV1().Pods(namespace)
		_, err := run(t, plan.Wait{Resource: "pod/p", For: "condition=Ready"}, map[string]func(){
			"not found": func() {
				_, err := set.CoreV1().ServiceAccounts(namespace).Apply(t.Context(), corev1apply.ServiceAccount("default", namespace), metav1.ApplyOptions{FieldManager: "test", Force: true})
				require.NoError(t, err)
				_, err = pods.Create(t.Context(), &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}, NodeName: "nowhere"},
				}, metav1.CreateOptions{})
				require.NoError(t, err)
			},
			"has no condition": func() {
				_, err := pods.Patch(t.Context(), "p", types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
				require.NoError(t, err)
			},
		})
		require.NoError(t, err)
	})
	t.Run("delete", func(t *testing.T) {
		create("doomed")()
		_, err := run(t, plan.Wait{Resource: "cm", Selector: "app=doomed", For: "delete"}, map[string]func(){
			"still exists": func() { require.NoError(t, maps.Delete(t.Context(), "doomed", metav1.DeleteOptions{})) },
		})
		require.NoError(t, err)
	})
	t.Run("timeout", func(t *testing.T) {
		action, err := New(plan.Wait{Resource: "cm/never", Namespace: namespace, For: "jsonpath={.data.x}"}, session.Cluster.Namespace())
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		err = action.Run(ctx, session, &script{on: map[string]func(){"not found": func() { cancel(&runner.TimeoutError{After: 5 * time.Minute}) }}})
		timeout := (*runner.TimeoutError)(nil)
		require.ErrorAs(t, err, &timeout)
		require.EqualError(t, err, "timed out after 5m waiting for cm/never to have jsonpath={.data.x}: cm/never: not found")
	})
	t.Run("faults", func(t *testing.T) {
		for spec, want := range map[plan.Wait]string{
			{Resource: "cm", For: "create"}:             `resource: "cm" names no object`,
			{Resource: "cm/x", For: "conditions=Ready"}: `for: "conditions=Ready" is not understood`,
			{Resource: "cm/x", For: "jsonpath={.a[}=x"}: "for: {.a[}: unterminated array",
		} {
			_, err := New(spec, session.Cluster.Namespace())
			require.ErrorContains(t, err, want)
			require.True(t, runner.IsPermanent(err))
		}
	})
}
