package doctor_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/doctor"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/finding"
)

var configurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}

// What mends a finding is made once, ends it, and can be taken back; but for an object that
// somebody changed meanwhile.
func TestMend(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	for name, tc := range map[string]struct {
		state string
		rule  string
	}{
		"a configuration that an uninstall left behind": {`
apiVersion: v1
kind: Secret
metadata: {name: record, labels: {owner: helm, name: NAMESPACE-other, status: deployed, version: "1"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE-hook, annotations: {meta.helm.sh/release-name: NAMESPACE-old, meta.helm.sh/release-namespace: NAMESPACE}}
webhooks:
- name: hook.example.com
  clientConfig: {service: {name: hook, namespace: NAMESPACE}}
  rules: [{apiGroups: [NAMESPACE.example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`, "webhook-service-gone"},
		"one of two webhooks without a CA bundle": {`
apiVersion: v1
kind: Service
metadata: {name: hook}
spec: {ports: [{port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hook, labels: {kubernetes.io/service-name: hook}}
addressType: IPv4
ports: [{name: '', port: 9443}]
endpoints: [{addresses: [10.9.9.9]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE-hook}
webhooks:
- name: one.example.com
  clientConfig: {service: {name: hook, namespace: NAMESPACE}, caBundle: '{{CA ca}}'}
  rules: [{apiGroups: [NAMESPACE.example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  sideEffects: None
  admissionReviewVersions: [v1]
- name: two.example.com
  clientConfig: {service: {name: hook, namespace: NAMESPACE}}
  rules: [{apiGroups: [NAMESPACE.example.com], apiVersions: [v1], operations: [CREATE], resources: [others]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`, "webhook-ca-missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newState(t, lab)
			s.send(t, tc.state)
			records := lab.Namespace(t)
			before := s.configuration(t)
			f := s.finding(t, tc.rule)

			c := s.cluster(t)
			change, err := c.Mend(t.Context(), f)
			require.NoError(t, err)
			require.NoError(t, c.Apply(t.Context(), change, records, "tester"))
			require.Empty(t, s.rules(t))
			require.ErrorIs(t, c.Apply(t.Context(), change, records, "tester"), doctor.ErrChanged, "the object is not as it was looked at any more")

			recorded, err := s.cluster(t).Recorded(t.Context(), f.ID(), records)
			require.NoError(t, err)
			require.Equal(t, change, recorded)
			undone, err := s.cluster(t).Undo(t.Context(), f.ID(), records)
			require.NoError(t, err)
			require.Equal(t, recorded, undone)
			after := s.configuration(t)
			require.Equal(t, before.Object["webhooks"], after.Object["webhooks"])
			require.Equal(t, before.GetAnnotations(), after.GetAnnotations())
			require.Equal(t, []string{tc.rule}, s.rules(t))
			_, err = s.cluster(t).Undo(t.Context(), f.ID(), records)
			require.ErrorIs(t, err, doctor.ErrNoRecord)
		})
	}
}

// An error that does not tell whether the change was made keeps the record, by which it can be
// taken back; a refusal does not.
func TestApplyKeepsRecordWhenInDoubt(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, next http.Handler)
		made   bool
		undo   error
	}{
		"the change was made, and its answer lost": {
			func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}, true, nil,
		},
		"the change was not made": {
			func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				http.Error(w, "overloaded", http.StatusInternalServerError)
			}, false, nil,
		},
		"the change was refused": {
			func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				http.Error(w, "forbidden", http.StatusForbidden)
			}, false, doctor.ErrNoRecord,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newState(t, lab)
			s.send(t, left)
			records := lab.Namespace(t)
			behind := lab.Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, configurations.Resource) {
					tc.answer(w, r, next)
					return
				}
				next.ServeHTTP(w, r)
			})
			c, err := doctor.New(behind.Config(t))
			require.NoError(t, err)
			c.Now = time.Now().Add(time.Hour)
			f := s.finding(t, "webhook-service-gone")
			change, err := c.Mend(t.Context(), f)
			require.NoError(t, err)

			err = c.Apply(t.Context(), change, records, "")

			require.Error(t, err)
			if tc.undo == nil {
				require.ErrorContains(t, err, "may have been made; doctor --undo "+f.ID())
			}
			if tc.made {
				require.Empty(t, s.rules(t))
			}
			_, err = s.cluster(t).Undo(t.Context(), f.ID(), records)
			require.ErrorIs(t, err, tc.undo)
			s.configuration(t)
		})
	}
}

// left is a configuration whose Service was in a namespace that is gone.
const left = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE-hook}
webhooks:
- name: hook.example.com
  clientConfig: {service: {name: hook, namespace: NAMESPACE-gone}}
  rules: [{apiGroups: [NAMESPACE.example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// A record is of a webhook configuration, the one that the finding is about. Others are no
// records of doctor, and nothing is written by them.
func TestRecordedLeavesOutWhatNoRemedyMakes(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	const (
		id       = "webhook-service-gone:ValidatingWebhookConfiguration/a"
		resource = `{"Group": "admissionregistration.k8s.io", "Version": "v1", "Resource": "validatingwebhookconfigurations"}`
		before   = `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "a"}}`
		role     = `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}}`
	)
	for name, tc := range map[string]struct {
		resource, before, after string
		err                     error
	}{
		"a webhook configuration":   {resource, before, "", nil},
		"another resource":          {`{"Group": "rbac.authorization.k8s.io", "Version": "v1", "Resource": "clusterroles"}`, role, "", doctor.ErrNoRecord},
		"another kind":              {resource, role, "", doctor.ErrNoRecord},
		"another name":              {resource, strings.ReplaceAll(before, `"a"`, `"b"`), "", doctor.ErrNoRecord},
		"another name after it":     {resource, before, strings.ReplaceAll(before, `"a"`, `"b"`), doctor.ErrNoRecord},
		"the other kind of webhook": {resource, strings.ReplaceAll(before, "Validating", "Mutating"), "", doctor.ErrNoRecord},
		"no object":                 {resource, `{}`, "", doctor.ErrNoRecord},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newState(t, lab)
			record := `{"finding": "` + id + `", "at": "2026-01-01T00:00:00Z", "resource": ` + tc.resource + `, "before": ` + tc.before
			if tc.after != "" {
				record += `, "after": ` + tc.after
			}
			s.send(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: record, labels: {kplan.dev/doctor: change}}, data: {change: '"+record+"}'}}")
			_, err := s.cluster(t).Recorded(t.Context(), id, s.namespace)
			require.ErrorIs(t, err, tc.err)
		})
	}
}

// What others changed since is not taken back.
func TestUndoLeavesWhatOthersChanged(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	s := newState(t, lab)
	s.send(t, left)
	records := lab.Namespace(t)
	f := s.finding(t, "webhook-service-gone")
	c := s.cluster(t)
	change, err := c.Mend(t.Context(), f)
	require.NoError(t, err)
	require.NoError(t, c.Apply(t.Context(), change, records, ""))
	s.send(t, left) // somebody installs it again

	_, err = s.cluster(t).Undo(t.Context(), f.ID(), records)
	require.ErrorIs(t, err, doctor.ErrChanged)
}

// Of most findings nothing is known that mends them and can be taken back.
func TestNoRemedy(t *testing.T) {
	t.Parallel()
	c := newState(t, labtest.ControlPlane(t)).cluster(t)
	_, err := c.Mend(t.Context(), finding.Finding{Rule: "issuer-not-ready", Object: "Issuer/x/y"})
	require.ErrorIs(t, err, doctor.ErrNoRemedy)
}

// cluster is a view of now in an hour, when nothing counts as new.
func (s *state) cluster(t *testing.T) *doctor.Cluster {
	t.Helper()
	c, err := doctor.New(s.lab.Config(t))
	require.NoError(t, err)
	c.Now = time.Now().Add(time.Hour)
	return c
}

// rules are those of which something is found.
func (s *state) rules(t *testing.T) []string {
	t.Helper()
	r, err := doctor.Examine(t.Context(), s.cluster(t), doctor.Checks())
	require.NoError(t, err)
	var rules []string
	for _, f := range r.Findings {
		if s.owns(f) {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}

func (s *state) finding(t *testing.T, rule string) finding.Finding {
	t.Helper()
	r, err := doctor.Examine(t.Context(), s.cluster(t), doctor.Checks())
	require.NoError(t, err)
	for _, f := range r.Findings {
		if s.owns(f) && f.Rule == rule {
			return f
		}
	}
	require.Fail(t, "not found", "%s: %v", rule, r.Findings)
	return finding.Finding{}
}

func (s *state) configuration(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o, err := s.client.Resource(configurations).Get(t.Context(), s.namespace+"-hook", metav1.GetOptions{})
	require.NoError(t, err)
	return o
}
