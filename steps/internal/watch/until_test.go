package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

var (
	getOptions    = metav1.GetOptions{}
	createOptions = metav1.CreateOptions{}
	configMap     = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

// fixture is a session on the lab, a namespace, and the administrator's client beside it.
type fixture struct {
	*cluster.Session
	lab       *labtest.Lab
	namespace string
}

func onLab(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) fixture {
	t.Helper()
	lab := labtest.ControlPlane(t)
	c, err := cluster.Connect(t.Context(), lab.Flags(), "kplan/test")
	require.NoError(t, err)
	s, err := c.Session(cluster.Options{Wrap: wrap})
	require.NoError(t, err)
	return fixture{s, lab, lab.Namespace(t)}
}

func (b fixture) configMap(t *testing.T, name string, data map[string]string) {
	t.Helper()
	_, err := b.lab.Clientset(t).CoreV1().ConfigMaps(b.namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "x"}}, Data: data}, createOptions)
	require.NoError(t, err)
}

func (b fixture) target(name string) Target {
	return Target{Kind: configMap, Namespace: b.namespace, Name: name}
}

// hasData is ready when the ConfigMap has the key go.
func hasData(_ Target, u *unstructured.Unstructured) Reading {
	if u == nil {
		return waiting("not found")
	}
	if _, ok, _ := unstructured.NestedString(u.Object, "data", "go"); ok {
		return reached("go")
	}
	return waiting("no go")
}

// bounded is a context that ends long after everything should have happened.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, &runner.TimeoutError{After: time.Minute})
	t.Cleanup(cancel)
	return ctx
}

// onWaiting calls do once, when target is first seen waiting: then the watch,
// or the list before it, is under way.
func onWaiting(target string, do func()) func(Change) {
	return func(c Change) {
		if c.Target.Name == target && c.Reading.State == Waiting && do != nil {
			first := do
			do = nil
			first()
		}
	}
}

func TestUntilSeesAbsentBecomePresentAndChanged(t *testing.T) {
	b := onLab(t, nil)
	b.configMap(t, "there", map[string]string{"go": ""})
	maps := b.lab.Clientset(t).CoreV1().ConfigMaps(b.namespace)
	var readings []string
	create := onWaiting("later", func() { b.configMap(t, "later", nil) })
	err := Until(bounded(t), b.Session, Wait{
		Targets: []Target{b.target("there"), b.target("later")}, Judge: hasData,
		Changed: func(c Change) {
			readings = append(readings, fmt.Sprintf("%d/%d %s: %s", c.Ready, c.Total, c.Target, c.Reading.Reason))
			create(c)
			if c.Reading.Reason == "no go" {
				_, err := maps.Patch(t.Context(), "later", types.MergePatchType, []byte(`{"data":{"go":"1"}}`), metav1.PatchOptions{})
				require.NoError(t, err)
			}
		},
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		"1/2 configmap/there: go", "1/2 configmap/later: not found", "1/2 configmap/later: no go", "2/2 configmap/later: go",
	}, readings)
}

// An object that became ready is not what is waited for: that is told again after it.
func TestUntilTellsWhatIsStillWaitedFor(t *testing.T) {
	b := onLab(t, nil)
	b.configMap(t, "web", nil)
	b.configMap(t, "settings", map[string]string{"go": ""})
	ctx, cancel := context.WithCancelCause(bounded(t))
	var told []string
	err := Until(ctx, b.Session, Wait{
		Targets: []Target{b.target("web"), b.target("settings")}, Judge: hasData,
		Changed: func(c Change) {
			told = append(told, c.Target.Name+": "+c.Reading.Reason)
			if len(told) == 3 {
				cancel(errors.New("enough"))
			}
		},
	})
	require.EqualError(t, err, "enough")
	require.Equal(t, []string{"web: no go", "settings: go", "web: no go"}, told)
}

// The reaction of a watch is a few milliseconds; any poll of a second or a
// wait for caches would show.
func TestUntilIsPrompt(t *testing.T) {
	b := onLab(t, nil)
	maps := b.lab.Clientset(t).CoreV1().ConfigMaps(b.namespace)
	var lags []time.Duration
	for i := range 20 {
		name := fmt.Sprintf("x%d", i)
		b.configMap(t, name, nil)
		answered := make(chan time.Time, 1)
		err := Until(bounded(t), b.Session, Wait{Targets: []Target{b.target(name)}, Judge: hasData, Changed: onWaiting(name, func() {
			go func() { // ends with the request, which is waited for below
				_, err := maps.Patch(context.WithoutCancel(t.Context()), name, types.MergePatchType, []byte(`{"data":{"go":"1"}}`), metav1.PatchOptions{})
				if err != nil {
					t.Error(err)
				}
				answered <- time.Now()
			}()
		})})
		seen := time.Now()
		require.NoError(t, err)
		lags = append(lags, max(0, seen.Sub(<-answered)))
	}
	slices.Sort(lags)
	t.Logf("write answered → seen: p50 %s, worst %s", lags[len(lags)/2], lags[len(lags)-1])
	require.Less(t, lags[len(lags)/2], 500*time.Millisecond)
}

func TestUntilTimeoutTellsTheLastReading(t *testing.T) {
	b := onLab(t, nil)
	b.configMap(t, "a", nil)
	cause := &runner.TimeoutError{After: 3 * time.Minute}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Until(ctx, b.Session, Wait{
		Targets: []Target{b.target("a"), b.target("b")}, Judge: hasData,
		Changed: func(c Change) {
			if c.Target.Name == "b" {
				cancel(cause)
			}
		},
	})
	timeout := (*runner.TimeoutError)(nil)
	require.ErrorAs(t, err, &timeout)
	require.ErrorIs(t, err, error(cause))
	require.EqualError(t, err, "timed out after 3m waiting for 2 objects to be ready: configmap/a: no go; configmap/b: not found")
	require.Equal(t, "look with: kubectl describe configmap/a -n "+b.namespace, runner.HintOf(err))
}

func TestUntilReturnsTheCauseOfAnInterruption(t *testing.T) {
	b := onLab(t, nil)
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Until(ctx, b.Session, Wait{Targets: []Target{b.target("a")}, Judge: hasData, Changed: func(Change) { cancel(interrupted) }})
	require.ErrorIs(t, err, interrupted)
}

// A watch that goes blind must not make a timeout of what has long happened.
func TestUntilLooksOnceMoreBeforeItGivesUp(t *testing.T) {
	b := onLab(t, func(rt http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") == "" {
				return rt.RoundTrip(r)
			}
			body, _ := io.Pipe() // open, and silent
			context.AfterFunc(r.Context(), func() { _ = body.CloseWithError(r.Context().Err()) })
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
		})
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Until(ctx, b.Session, Wait{Targets: []Target{b.target("a")}, Judge: hasData, Changed: onWaiting("a", func() {
		b.configMap(t, "a", map[string]string{"go": ""})
		cancel(&runner.TimeoutError{After: time.Minute})
	})})
	require.NoError(t, err)
}

// as is a session of a user who may do what rules say in the namespace.
func (b fixture) as(t *testing.T, rules ...rbacv1.PolicyRule) fixture {
	t.Helper()
	user, rbac := "jane-"+b.namespace, b.lab.Clientset(t).RbacV1()
	_, err := rbac.Roles(b.namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "jane"}, Rules: rules}, createOptions)
	require.NoError(t, err)
	_, err = rbac.RoleBindings(b.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "jane"},
	}, createOptions)
	require.NoError(t, err)
	flags := b.lab.Flags()
	flags.Impersonate = &user
	c, err := cluster.Connect(t.Context(), flags, "kplan/test")
	require.NoError(t, err)
	s, err := c.Session(cluster.Options{})
	require.NoError(t, err)
	// Authorization learns of roles by watch.
	require.Eventually(t, func() bool {
		verb, names := rules[0].Verbs[0], append(rules[0].ResourceNames, "a")
		if verb != "get" {
			return true
		}
		_, err := s.Clientset.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), names[0], getOptions)
		return err == nil || !strings.Contains(err.Error(), "cannot get")
	}, time.Minute, 10*time.Millisecond)
	return fixture{s, b.lab, b.namespace}
}

func TestUntilWithFewRights(t *testing.T) {
	for name, tt := range map[string]struct {
		rule   rbacv1.PolicyRule
		notice string
	}{
		"to get alone":           {rbacv1.PolicyRule{Verbs: []string{"get"}}, "ConfigMap may not be watched; looking every 1s instead"},
		"to get and list":        {rbacv1.PolicyRule{Verbs: []string{"get", "list"}}, "ConfigMap may not be watched; looking every 1s instead"},
		"to two objects by name": {rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, ResourceNames: []string{"a", "b"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			admin := onLab(t, nil)
			admin.configMap(t, "a", map[string]string{"go": ""})
			tt.rule.APIGroups, tt.rule.Resources = []string{""}, []string{"configmaps"}
			b := admin.as(t, tt.rule)
			var notices sync.Map
			create := onWaiting("b", func() { b.configMap(t, "b", map[string]string{"go": ""}) })
			err := Until(bounded(t), b.Session, Wait{
				Targets: []Target{b.target("a"), b.target("b")}, Judge: hasData, Changed: create,
				Notice: func(s string) { notices.Store(s, true) },
			})
			require.NoError(t, err)
			if tt.notice != "" {
				_, said := notices.Load(tt.notice)
				require.True(t, said, "notices: %v", &notices)
			}
		})
	}
	t.Run("to nothing", func(t *testing.T) {
		b := onLab(t, nil)
		b = b.as(t, rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
		err := Until(bounded(t), b.Session, Wait{Targets: []Target{b.target("a")}, Judge: hasData})
		require.True(t, runner.IsPermanent(err))
		require.Equal(t, "check with: kubectl auth can-i get configmaps -n "+b.namespace, runner.HintOf(err))
	})
}

func TestUntilWaitsForKinds(t *testing.T) {
	b := onLab(t, nil)
	group := "g" + b.namespace + ".kplan.dev" // no other test's
	target := Target{Type: "gizmo." + group, Namespace: b.namespace, Name: "a"}
	var readings []string
	err := Until(bounded(t), b.Session, Wait{
		Targets: []Target{target},
		Judge: func(_ Target, u *unstructured.Unstructured) Reading {
			if u == nil {
				return waiting("not found")
			}
			return reached("there")
		},
		Changed: func(c Change) {
			readings = append(readings, c.Reading.Reason)
			switch c.Reading.Reason {
			case "the API server does not know " + target.Type + " yet":
				b.define(t, group)
			case "not found":
				m, err := b.Cluster.MappingFor(t.Context(), target.Type)
				require.NoError(t, err)
				gizmo := &unstructured.Unstructured{}
				gizmo.SetGroupVersionKind(m.GroupVersionKind)
				gizmo.SetName("a")
				_, err = b.Resource(m, b.namespace).Create(t.Context(), gizmo, createOptions)
				require.NoError(t, err)
			}
		},
	})
	require.NoError(t, err)
	require.Equal(t, "the API server does not know "+target.Type+" yet", readings[0])
	require.Equal(t, []string{"not found", "there"}, readings[len(readings)-2:])
}

// define makes a kind Gizmo in a group.
func (b fixture) define(t *testing.T, group string) {
	t.Helper()
	crd := object(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.`+group+`}
spec:
  group: `+group+`
  scope: Namespaced
  names: {kind: Gizmo, plural: gizmos, singular: gizmo}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`)
	crds := b.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := crds.Create(t.Context(), crd, createOptions)
	require.NoError(t, err)
	t.Cleanup(func() { _ = crds.Delete(context.WithoutCancel(t.Context()), crd.GetName(), metav1.DeleteOptions{}) })
}

func TestUntilDeletion(t *testing.T) {
	absent := func(_ Target, u *unstructured.Unstructured) Reading {
		if u == nil {
			return reached("gone")
		}
		return waiting("there")
	}
	t.Run("of an object that is made anew at once", func(t *testing.T) {
		b := onLab(t, nil)
		b.configMap(t, "a", nil)
		err := Until(bounded(t), b.Session, Wait{Targets: []Target{b.target("a")}, Judge: absent, Deletion: true, Changed: onWaiting("a", func() {
			_ = b.lab.Clientset(t).CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{})
			b.configMap(t, "a", nil)
		})})
		require.NoError(t, err)
	})
	t.Run("of a kind that nobody serves", func(t *testing.T) {
		b := onLab(t, nil)
		var notice string
		err := Until(bounded(t), b.Session, Wait{
			Targets: []Target{{Type: "unicorns.example.io", Name: "a"}}, Judge: absent, Deletion: true, Notice: func(s string) { notice = s },
		})
		require.NoError(t, err)
		require.Equal(t, "no kind unicorns.example.io is served: there is nothing to be deleted", notice)
	})
	t.Run("of all with a label", func(t *testing.T) {
		b := onLab(t, nil)
		b.configMap(t, "a", nil)
		b.configMap(t, "b", nil)
		maps := b.lab.Clientset(t).CoreV1().ConfigMaps(b.namespace)
		err := Until(bounded(t), b.Session, Wait{
			Targets: []Target{{Type: "cm", Selector: "app=x", Namespace: b.namespace}}, Judge: absent, Deletion: true,
			Changed: func(c Change) {
				if c.Reading.State == Waiting {
					_ = maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=x"})
				}
			},
		})
		require.NoError(t, err)
	})
}
