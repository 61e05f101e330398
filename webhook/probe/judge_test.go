package probe

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// hook is a webhook that is called for the creation of ConfigMaps.
func hook(kind webhook.Kind, configuration, name string, policy admissionv1.FailurePolicyType) webhook.Entry {
	return webhook.Entry{
		Kind: kind, Configuration: configuration, Name: name, FailurePolicy: policy,
		MatchPolicy: admissionv1.Equivalent, SideEffects: admissionv1.SideEffectClassNone,
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}
}

// onlyConfigMaps is a mapper that knows ConfigMaps only.
type onlyConfigMaps struct{}

func (onlyConfigMaps) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	if r.Resource != "configmaps" {
		return schema.GroupVersionKind{}, &meta.NoResourceMatchError{PartialResource: r}
	}
	return r.GroupVersion().WithKind("ConfigMap"), nil
}

func (onlyConfigMaps) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if gk.Kind != "ConfigMap" {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	v1 := schema.GroupVersion{Version: "v1"}
	return &meta.RESTMapping{Resource: v1.WithResource("configmaps"), GroupVersionKind: v1.WithKind("ConfigMap"), Scope: meta.RESTScopeNamespace}, nil
}

func configMap(annotations map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	u.SetName("c")
	u.SetNamespace("ns")
	u.SetAnnotations(annotations)
	return u
}

func denial(name string) answer {
	return answer{fault: webhook.Fault{Kind: webhook.Admission, Class: webhook.Denied, Webhook: name, Cause: "no", Message: "admission webhook \"" + name + "\" denied the request: no"}}
}

// What an answer shows of webhook a, among others that are asked too. In each
// case a and b are wanted, and c is not.
func TestJudgeCanary(t *testing.T) {
	const ignore, fail = admissionv1.Ignore, admissionv1.Fail
	validating := hook(webhook.Validating, "x", "a", fail)
	ignored := hook(webhook.Validating, "x", "a", ignore)
	mutating := hook(webhook.Mutating, "x", "a", fail)
	mutatingIgnored := hook(webhook.Mutating, "x", "a", ignore)
	peer := hook(webhook.Validating, "x", "b", fail)
	mutatingPeer := hook(webhook.Mutating, "x", "b", ignore)
	foreign := hook(webhook.Validating, "y", "c", fail)
	namesake := hook(webhook.Validating, "y", "a", fail)
	passed, changed := answer{admitted: true, object: configMap(nil)}, answer{admitted: true, object: configMap(map[string]string{"made": "yes"})}
	failed := answer{fault: webhook.Fault{Kind: webhook.Admission, Class: webhook.Race, Webhook: "a", Cause: "connection refused"}}

	for name, tt := range map[string]struct {
		entry   webhook.Entry
		others  []webhook.Entry
		want    Want
		answer  answer
		state   State
		reason  string
		refused string
	}{
		"admitted, as expected":                 {validating, nil, Accept, passed, Proven, "", ""},
		"there already, so admitted":            {validating, nil, Accept, answer{admitted: true}, Proven, "", ""},
		"admitted, but that may be ignored":     {ignored, nil, Accept, passed, Unproven, "failurePolicy Ignore", ""},
		"no answer":                             {validating, nil, Accept, failed, Missing, "connection refused", ""},
		"denied against expectation":            {validating, nil, Accept, denial("a"), "", "", `webhook "a" denies`},
		"denied by a wanted one":                {validating, []webhook.Entry{peer}, Accept, denial("b"), "", "", `webhook "b" denies`},
		"denied by a stranger":                  {validating, []webhook.Entry{foreign}, Accept, denial("c"), Missing, "not meant", ""},
		"refused by the API server":             {validating, nil, Accept, answer{refusal: "bad"}, "", "", "by itself"},
		"refused before a change makes it good": {validating, []webhook.Entry{mutatingPeer}, Accept, answer{refusal: "bad"}, Missing, "bad", ""},
		"its namespace is not there":            {validating, nil, Accept, answer{absent: `namespaces "ns" not found`}, Missing, "not found", ""},

		"denied, as expected":                      {ignored, nil, Deny, denial("a"), Proven, "no", ""},
		"admitted against expectation":             {validating, nil, Deny, passed, Missing, "is admitted", ""},
		"admitted, ignored or not":                 {ignored, nil, Deny, passed, Missing, "gave no answer, which its failurePolicy", ""},
		"denied by a peer":                         {validating, []webhook.Entry{peer}, Deny, denial("b"), Unproven, "shows nothing of this one", ""},
		"denied by a peer that is asked later":     {mutating, []webhook.Entry{peer}, Deny, denial("b"), Proven, "", ""},
		"ignored before a peer":                    {mutatingIgnored, []webhook.Entry{peer}, Deny, denial("b"), Unproven, "shows nothing", ""},
		"denied by another webhook":                {validating, []webhook.Entry{foreign}, Deny, denial("c"), Missing, `webhook "c", which is not meant`, ""},
		"denied by a stranger that is asked later": {mutating, []webhook.Entry{foreign}, Deny, denial("c"), Missing, "not meant", ""},
		"denied by one of two of a name":           {validating, []webhook.Entry{namesake}, Deny, denial("a"), Unproven, "another webhook has as well", ""},
		"the first of two of a name":               {mutating, []webhook.Entry{namesake}, Deny, denial("a"), Proven, "", ""},

		"changed":                      {mutating, nil, Mutate, changed, Proven, "", ""},
		"changed, though ignorable":    {mutatingIgnored, nil, Mutate, changed, Proven, "made", ""},
		"not changed":                  {mutating, nil, Mutate, passed, Missing, `"made"`, ""},
		"changed by one of two":        {mutatingIgnored, []webhook.Entry{mutatingPeer}, Mutate, changed, Unproven, `or by webhook "b"`, ""},
		"there already, so not shown":  {mutating, nil, Mutate, answer{admitted: true}, "", "", "another name"},
		"changed, says nothing of a":   {ignored, nil, Mutate, changed, Unproven, "failurePolicy Ignore", ""},
		"changed, passes a":            {validating, nil, Mutate, changed, Proven, "", ""},
		"denied instead of changed":    {mutating, nil, Mutate, denial("a"), "", "", `webhook "a" denies`},
		"refused as long as unchanged": {mutating, nil, Mutate, answer{refusal: "bad"}, Missing, "bad", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(Config{
				Mapper: onlyConfigMaps{}, Matcher: &match.Matcher{}, Known: append(tt.others, tt.entry),
				Wanted: func(e webhook.Entry) bool { return e.Configuration == "x" },
			}, tt.entry)
			d, err := p.prepare(t.Context(), configMap(nil))
			require.NoError(t, err)
			require.Equal(t, match.Calls, d.verdict.Outcome)
			c := Canary{Want: tt.want, Object: d.object, Source: "c.yaml"}
			if tt.want == Mutate {
				c.Expect, err = Compile(`object.metadata.?annotations["made"].orValue("") == "yes"`)
				require.NoError(t, err)
			}

			o, err := p.judgeCanary(t.Context(), c, d, tt.answer)

			if tt.refused != "" {
				require.ErrorAs(t, err, new(*RefusedError))
				require.ErrorContains(t, err, tt.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.state, o.State, o.Reason)
			require.Contains(t, o.Reason, tt.reason)
		})
	}
}

// Of an object that is made up any answer of the webhook will do.
func TestJudgeObject(t *testing.T) {
	validating := hook(webhook.Validating, "x", "a", admissionv1.Fail)
	mutating := hook(webhook.Mutating, "x", "a", admissionv1.Fail)
	for name, tt := range map[string]struct {
		entry  webhook.Entry
		answer answer
		state  State
		reason string
	}{
		"admitted":                             {validating, answer{admitted: true}, Proven, ""},
		"denied, which is an answer":           {validating, denial("a"), Proven, "it denies: no"},
		"denied by another":                    {validating, denial("b"), Unproven, `webhook "b" denies`},
		"not valid, which comes before":        {validating, answer{refusal: "bad"}, Unproven, "not valid: bad"},
		"not valid, which comes after":         {mutating, answer{refusal: "bad"}, Proven, ""},
		"not allowed":                          {validating, answer{forbidden: "no"}, Unproven, "no"},
		"another webhook gives no answer":      {validating, answer{fault: webhook.Fault{Kind: webhook.Admission, Class: webhook.Race, Webhook: "b", Cause: "EOF"}}, Missing, `webhook "b", which is asked too`},
		"the API server is away":               {validating, answer{fault: webhook.Fault{Kind: webhook.Server, Class: webhook.Race, Cause: "starts"}}, Missing, "starts"},
		"the mutating webhook gives no answer": {mutating, answer{fault: webhook.Fault{Kind: webhook.Admission, Class: webhook.Race, Webhook: "a", Cause: "EOF"}}, Missing, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(Config{Mapper: onlyConfigMaps{}, Matcher: &match.Matcher{}, Known: []webhook.Entry{tt.entry}}, tt.entry)
			d, err := p.prepare(t.Context(), configMap(nil))
			require.NoError(t, err)
			o := p.judgeObject(t.Context(), d, tt.answer)
			require.Equal(t, tt.state, o.State, o.Reason)
			require.Contains(t, o.Reason, tt.reason)
		})
	}
}

// What nobody can be sure of is no evidence: whether a webhook is called may
// depend on the labels of a namespace that are not known.
func TestDoubtIsNoEvidence(t *testing.T) {
	e := hook(webhook.Validating, "x", "a", admissionv1.Fail)
	e.NamespaceSelector = selector("team", "app")
	p := New(Config{Mapper: onlyConfigMaps{}, Matcher: &match.Matcher{}}, e)
	d, err := p.prepare(t.Context(), configMap(nil))
	require.NoError(t, err)
	o := p.judgeObject(t.Context(), d, answer{admitted: true})
	require.Equal(t, Unproven, o.State)
	require.Contains(t, o.Reason, "it may not have been asked")
}
