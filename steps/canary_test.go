package steps_test

import (
	"context"
	"encoding/base64"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// The canaries of the tests.
var canaries = map[string]string{
	"good.yaml":   "{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: NS}}",
	"bad.yaml":    "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, namespace: NS, labels: {bad: very}}}",
	"secret.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: other, namespace: NS}}",
	"wrong.yaml":  "{apiVersion: v1, kind: ConfigMap, metadata: {name: wrong, namespace: NS}, data: {key: [1]}}",
}

const made = `{file: DIR/good.yaml, expect: 'object.metadata.annotations["made"] == "yes"'}`

// What canaries prove, and what they do not.
func TestCanaries(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	const ignore = registrationv1.Ignore
	for name, tt := range map[string]struct {
		hooks   []hook
		foreign []hook // of another configuration
		canary  string
		want    string // the step's message
		err     string // or its error
		timeout bool
	}{
		"a denial proves what may be ignored": {
			hooks:  []hook{{name: "a.example.io", does: "deny", policy: ignore}},
			canary: "deny: [DIR/bad.yaml]", want: "1 of 1 webhooks admit",
		},
		"a change proves what may be ignored": {
			hooks:  []hook{{name: "a.example.io", does: "mutate", mutating: true, policy: ignore}},
			canary: "mutate: [" + made + "]", want: "1 of 1 webhooks admit",
		},
		"each webhook needs evidence of its own": {
			hooks: []hook{
				{name: "a.example.io", does: "mutate", mutating: true, policy: ignore},
				{name: "b.example.io", does: "deny", policy: ignore},
				{name: "c.example.io", does: "allow", policy: ignore},
				{name: "d.example.io", does: "allow"},
			},
			canary: "accept: [DIR/good.yaml], deny: [DIR/bad.yaml], mutate: [" + made + "]",
			want:   `3 of 4 webhooks admit (validating c.example.io unproven: `,
		},
		"admission proves nothing of what may be ignored": {
			hooks:  []hook{{name: "a.example.io", does: "allow", policy: ignore}},
			canary: "accept: [DIR/good.yaml]", want: "0 of 1 webhooks admit (validating a.example.io unproven: failurePolicy Ignore lets objects pass",
		},
		"a denial by another webhook is none": {
			hooks: []hook{{name: "a.example.io", does: "allow"}}, foreign: []hook{{name: "b.example.io", does: "deny"}},
			canary: "deny: [DIR/bad.yaml]", timeout: true,
			err: `is denied by webhook "b.example.io", which is not meant`,
		},
		"nobody denies": {
			hooks:  []hook{{name: "a.example.io", does: "allow"}},
			canary: "deny: [DIR/bad.yaml]", timeout: true, err: "admitting: the deny canary",
		},
		"nobody changes": {
			hooks:  []hook{{name: "a.example.io", does: "allow", mutating: true}},
			canary: "mutate: [" + made + "]", timeout: true, err: `object.metadata.annotations["made"] == "yes"`,
		},
		"a good object is denied": {
			hooks:  []hook{{name: "a.example.io", does: "deny"}},
			canary: "accept: [DIR/bad.yaml]", err: `webhook "a.example.io" denies the accept canary`,
		},
		"the API server refuses it": {
			hooks:  []hook{{name: "a.example.io", does: "deny"}},
			canary: "deny: [DIR/wrong.yaml]", err: "the API server refuses the deny canary",
		},
		"a canary for nobody": {
			hooks:  []hook{{name: "a.example.io", does: "allow"}},
			canary: "deny: [DIR/secret.yaml]", err: "concerns none of the webhooks",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			server := newWebhooks(t)
			server.configure(t, lab, ns, ns, tt.hooks...)
			if tt.foreign != nil {
				server.configure(t, lab, ns, ns+"-foreign", tt.foreign...)
			}
			timeout := "1m"
			if tt.timeout {
				timeout = "8s"
			}
			canary := strings.ReplaceAll(tt.canary, "DIR", files(t, ns, canaries))

			out := runPlan(t, lab, ns, "\n- name: gate\n  timeout: "+timeout+"\n  webhook: {configuration: NS, canary: {"+canary+"}}\n")

			if tt.err == "" {
				require.NoError(t, out.err)
				require.Contains(t, out.execution.Step("gate").Message, tt.want)
				return
			}
			require.ErrorContains(t, out.err, tt.err)
			require.NotEmpty(t, runner.HintOf(out.err))
			require.NotContains(t, runner.HintOf(out.err), "can be deleted", "they work")
			timedOut := (*runner.TimeoutError)(nil)
			require.Equal(t, !tt.timeout, runner.IsPermanent(out.err))
			if tt.timeout {
				require.ErrorAs(t, out.err, &timedOut)
			}
		})
	}
}

// What is wrong in a canary is told before anything runs.
func TestCanaryFaults(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := "no-namespace-is-needed"
	dir := files(t, ns, map[string]string{"good.yaml": canaries["good.yaml"], "empty.yaml": "# nothing\n"})
	for canary, want := range map[string]string{
		"mutate: [{file: DIR/good.yaml, expect: 'object.metadata.'}]":                 "expect: column",
		"mutate: [{file: DIR/good.yaml, expect: 'objekt.kind == \"x\"'}]":             "undeclared reference to 'objekt'",
		"mutate: [{file: DIR/good.yaml, expect: '1 + 1'}]":                            "it gives int, not true or false",
		"mutate: [{file: DIR/good.yaml, expect: 'object.metadata.name == \"good\"'}]": "true of the object as it is in the file",
		"accept: [DIR/empty.yaml]":                                                    "holds no object",
	} {
		p, err := load.File(files(t, ns, map[string]string{"plan.yaml": "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: test}\n" +
			"steps:\n- name: gate\n  webhook: {configuration: x, canary: {" + strings.ReplaceAll(canary, "DIR", dir) + "}}\n"})+"/plan.yaml", load.Options{})
		require.NoError(t, err)
		s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test"})
		require.NoError(t, err)
		_, err = s.Resolve(p.Steps[0])
		require.ErrorContains(t, err, want)
		require.True(t, runner.IsPermanent(err))
		s.Close()
	}
}

// An operator may configure its webhooks one after the other: those that come while
// the first are waited for are waited for as well. This one guards a namespace that
// comes meanwhile too.
func TestWebhookStepWaitsForThoseThatComeMeanwhile(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	server := newWebhooks(t)
	var came atomic.Int64 // when the second one did, in nanoseconds of Unix
	server.broken = func(int64) bool {
		at := came.Load()
		return at == 0 || time.Since(time.Unix(0, at)) < 2*time.Second // time for kplan to see it
	}
	server.configure(t, lab, ns, ns, hook{name: "a.example.io", does: "allow"})
	another := sync.OnceFunc(func() {
		server.configure(t, lab, lab.Namespace(t), ns, hook{name: "b.example.io", does: "mutate", mutating: true})
		came.Store(time.Now().UnixNano())
	})

	out := runPlan(t, lab, ns, "\n- name: gate\n  timeout: 3m\n  webhook: {configuration: NS}\n", observer(func(e runner.Event) {
		if e.Type == runner.TypeHeld || e.Type == runner.TypeWebhook {
			another()
		}
	}))

	require.NoError(t, out.err)
	require.Equal(t, "2 of 2 webhooks admit", out.execution.Step("gate").Message)
}

// A webhook that fails between two answers has to begin anew.
func TestStableCountsFromTheLastMiss(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	server := newWebhooks(t)
	server.broken = func(call int64) bool { return call == 2 }
	server.configure(t, lab, ns, ns, hook{name: "a.example.io", does: "allow"})
	server.awaitCall(t, lab, ns)

	out := runPlan(t, lab, ns, "\n- name: gate\n  timeout: 3m\n  webhook: {configuration: NS, stable: 3}\n")

	require.NoError(t, out.err)
	require.EqualValues(t, 5, server.calls.Load(), "one answer, a miss, three answers")
	var missed []string
	for _, e := range out.of(runner.TypeWebhook) {
		if e.Webhook.State == "waiting" {
			missed = append(missed, e.Webhook.Rung+": "+e.Webhook.Cause)
		}
	}
	require.Len(t, missed, 1)
	require.Contains(t, missed[0], "admitting: 1 answer in a row, then: an error on the server")
	told := out.of(runner.TypeWebhook)
	last := told[len(told)-1].Webhook
	require.Equal(t, "admitting ready", last.Rung+" "+last.State)
}

// The webhooks of files are those that would be called for the objects in them.
func TestWebhookStepBySelection(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns, other := lab.Namespace(t), lab.Namespace(t)
	server := newWebhooks(t)
	server.configure(t, lab, ns, ns, hook{name: "a.example.io", does: "allow"}, hook{name: "b.example.io", does: "allow", mutating: true})
	server.configure(t, lab, other, other, hook{name: "c.example.io", does: "allow"})
	dir := files(t, ns, canaries)
	for webhook, want := range map[string]string{
		"{files: [" + dir + "/good.yaml]}":         "2 of 2 webhooks admit",
		"{selector: 'test in (NS," + other + ")'}": "3 of 3 webhooks admit",
	} {
		out := runPlan(t, lab, ns, "\n- name: gate\n  timeout: 3m\n  webhook: "+webhook+"\n")
		require.NoError(t, out.err, webhook)
		require.Equal(t, want, out.execution.Step("gate").Message, webhook)
	}
	out := runPlan(t, lab, ns, "\n- name: gate\n  timeout: 5s\n  webhook: {files: ["+dir+"/secret.yaml]}\n")
	require.ErrorContains(t, out.err, "waiting for webhooks for the objects in")
}

// Without a canary the objects of later steps are asked with: they may be the only
// ones that a webhook is called for.
func TestWebhookStepAsksWithLaterObjects(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	server := newWebhooks(t)
	server.configure(t, lab, ns, ns, hook{name: "a.example.io", does: "allow"})
	api := lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	c, err := api.Get(t.Context(), ns, metav1.GetOptions{})
	require.NoError(t, err)
	c.Webhooks[0].MatchConditions = []registrationv1.MatchCondition{{Name: "named", Expression: `object.metadata.?name.orValue("") == "good"`}}
	_, err = api.Update(t.Context(), c, metav1.UpdateOptions{})
	require.NoError(t, err)
	gate := "\n- name: gate\n  timeout: 3m\n  webhook: {configuration: NS}\n"

	alone := runPlan(t, lab, ns, gate)
	require.NoError(t, alone.err)
	require.Contains(t, alone.execution.Step("gate").Message, `0 of 1 webhooks admit (validating a.example.io unproven: it is called for CREATE of configmaps; to create configmaps was tried: its matchCondition "named" is false`)

	later := runPlan(t, lab, ns, gate+"- {name: between, needs: [gate], wait: {resource: configmap/kube-root-ca.crt, namespace: NS, for: create}}\n"+
		"- {name: later, needs: [between], apply: {files: ["+files(t, ns, canaries)+"/good.yaml]}}\n")
	require.NoError(t, later.err)
	require.Equal(t, "1 of 1 webhooks admit", later.execution.Step("gate").Message)
}

// The conversion webhook of a kind is waited for as well: objects that exist are
// read in another version, and where there are none one is made up.
func TestConversionIsProven(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	for name, objects := range map[string]int{"without objects": 0, "with an object": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			server := newWebhooks(t)
			group := ns + ".example.io"
			crd(t, client, server, ns)
			for range objects {
				things := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace(ns)
				require.Eventually(t, func() bool {
					_, err := things.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
						"apiVersion": group + "/v1", "kind": "Thing", "metadata": map[string]any{"name": "one"},
					}}, metav1.CreateOptions{})
					return err == nil
				}, time.Minute, 50*time.Millisecond)
			}
			if objects == 0 { // else the API server's own caches ask too
				server.broken = func(call int64) bool { return call <= 2 }
			}

			out := runPlan(t, lab, ns, "\n- name: gate\n  timeout: 3m\n  webhook: {selector: test=NS}\n")

			require.NoError(t, out.err)
			require.Equal(t, "1 of 1 webhooks admit", out.execution.Step("gate").Message)
			require.Positive(t, server.calls.Load())
			if objects == 0 {
				require.Contains(t, out.of(runner.TypeWebhook)[0].Webhook.Cause, "an error on the server")
			}
		})
	}
}

// crd makes a definition with two versions, whose objects the server converts.
func crd(t *testing.T, client dynamic.Interface, server *webhooks, ns string) {
	t.Helper()
	group := ns + ".example.io"
	version := func(name string, storage bool) map[string]any {
		return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}}
	}
	config := server.client("convert")
	api := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := api.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things." + group, "labels": map[string]any{"test": ns}},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": "Thing", "plural": "things"},
			"versions": []any{version("v1", true), version("v1alpha1", false)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig":             map[string]any{"url": *config.URL, "caBundle": base64.StdEncoding.EncodeToString(config.CABundle)},
			}},
		},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Delete(context.Background(), "things."+group, metav1.DeleteOptions{}) })
}
