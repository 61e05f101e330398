package main

import (
	"reflect"

	"github.com/kplan-dev/kplan/plan"
)

// The texts that fields take. Each may have an expression in it, whose value is
// not known here.
const (
	durations = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|\$\{\{`
	labels    = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$|\$\{\{`
)

// shortForms are the types that a file writes in another way, or in another way
// as well as in that of their fields, which long refers to.
var shortForms = map[reflect.Type]func(long *node) *node{
	reflect.TypeFor[plan.Duration](): func(*node) *node {
		return &node{
			Type: "string", Pattern: durations, PatternError: "write a number with its unit, such as 90s, 10m or 1h30m",
			Examples: []any{"90s", "10m", "1h30m"},
		}
	},
	reflect.TypeFor[plan.Need](): func(long *node) *node {
		return &node{AnyOf: []*node{{Type: "string", Description: "The name of a step that must have succeeded.", MinLength: 1}, long}}
	},
	reflect.TypeFor[plan.Readiness](): func(long *node) *node {
		return &node{AnyOf: []*node{{Type: "string", Description: "CEL over object that is true of one that is ready.", MinLength: 1, Examples: []any{`object.status.phase == "Running"`}}, long}}
	},
	reflect.TypeFor[plan.ServerSide](): func(long *node) *node {
		return &node{AnyOf: []*node{{Type: "boolean"}, {Enum: []string{string(plan.ServerSideAuto), string(plan.ServerSideTrue), string(plan.ServerSideFalse)}}}}
	},
	// The items themselves, or a mapping of in and parallel.
	reflect.TypeFor[plan.ForEach](): func(long *node) *node {
		items := &node{Type: "object", Not: &node{Required: []string{"in"}, AnyOf: []*node{
			{PropertyNames: &node{Enum: []string{"in", "parallel"}}}, {Properties: properties{{"in", &node{Type: "array"}}}},
		}}}
		return &node{AnyOf: []*node{{Type: "array"}, long, items}}
	},
}

// ofTypes say what holds for a mapping as a whole.
var ofTypes = map[string]func(*node){
	"Step":    exactlyOne("helm", "apply", "wait", "webhook", "delete", "include"),
	"Webhook": exactlyOne("release", "configuration", "service", "selector", "files"),
	"Output":  exactlyOne("jsonpath", "cel"),
	"Var":     notBoth("secret", "config_map"),
	"Verify":  exactlyOne("keyring", "cosign"),
	"Cluster": notBoth("kubeconfig", "kubeconfig_secret"),
	"Apply":   func(n *node) { n.AnyOf = requiring("files", "objects") },
	"Delete":  func(n *node) { n.AnyOf = requiring("files", "objects", "resource", "release") },
	"Canary":  func(n *node) { n.MinProperties = 1 },
	"Repository": func(n *node) {
		n.Not = &node{Required: []string{"password", "token"}}
		for _, pair := range [][2]string{{"username", "password"}, {"password", "username"}, {"cert_file", "key_file"}, {"key_file", "cert_file"}} {
			n.AllOf = append(n.AllOf, &node{If: &node{Required: pair[:1]}, Then: &node{Required: pair[1:]}})
		}
	},
}

func exactlyOne(fields ...string) func(*node) {
	return func(n *node) { n.OneOf = requiring(fields...) }
}

func notBoth(fields ...string) func(*node) {
	return func(n *node) { n.Not = &node{Required: fields} }
}

func requiring(fields ...string) []*node {
	var all []*node
	for _, f := range fields {
		all = append(all, &node{Required: []string{f}})
	}
	return all
}

// ofFields say what the type of a field does not.
var ofFields = map[string]func(*node){
	"Plan.apiVersion": constant(plan.APIVersion),
	"Plan.kind":       constant(plan.PlanKind),
	"Plan.vars":       names(`^[A-Za-z_][A-Za-z0-9_]*$`, "use letters, digits and _ only, and no digit first"),
	"Plan.ready":      names(`^[A-Z][A-Za-z0-9]*(\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`, "write KIND.GROUP, such as Certificate.cert-manager.io"),
	"Plan.steps":      func(n *node) { n.MinItems = 1 },
	"Var.secret":      withKey,
	"Var.config_map":  withKey,
	"Repository.url":  both(nonEmpty, examples("https://charts.example.com", "oci://ghcr.io/org")),
	"Metadata.name":   label,
	"State.namespace": label,

	"Step.name":                 label,
	"Step.concurrency_group":    nonEmpty,
	"Step.when":                 func(n *node) { n.Type = "boolean"; orExpression(n) },
	"Retry.install_retries":     between(1, 1000),
	"Retry.retry_delay_seconds": between(0, 24*60*60),

	"Helm.chart":     both(nonEmpty, examples("external-secrets", "oci://ghcr.io/org/charts/app", "./chart", "my-repository/app")),
	"Helm.repo":      examples("https://charts.external-secrets.io", "my-repository"),
	"Helm.version":   examples("0.11.0", "~1.4"),
	"Helm.namespace": label,

	"Apply.files":     examples([]string{"manifests/*.yaml"}),
	"Apply.namespace": label,
	"Apply.wait":      func(n *node) { n.AnyOf[0] = readyOrNot(n.AnyOf[0]) },

	"Wait.resource":  both(nonEmpty, examples("deployment/web", "certificate.cert-manager.io/tls", "pod")),
	"Wait.namespace": label,
	"Wait.selector":  examples("app=web"),
	"Wait.for":       both(nonEmpty, examples("condition=Ready", "condition=Available", "jsonpath={.status.phase}=Running", "ready", "create", "delete")),

	"Delete.files":     examples([]string{"old/*.yaml"}),
	"Delete.namespace": label,
	"Delete.resource":  both(nonEmpty, examples("deployment/web", "vmagents.operator.victoriametrics.com")),
	"Delete.selector":  examples("app=web"),
	"Delete.release":   nonEmpty,

	"Webhook.namespace":     label,
	"Webhook.configuration": nonEmpty,
	"Webhook.selector":      nonEmpty,
	"Webhook.service": func(n *node) {
		n.Pattern = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?$|\$\{\{`
		n.PatternError = "write NAMESPACE/NAME"
	},
	"Webhook.stable":  between(1, 1000),
	"Mutation.file":   nonEmpty,
	"Mutation.expect": both(nonEmpty, examples("has(object.metadata.labels)")),
}

func both(rules ...func(*node)) func(*node) {
	return func(n *node) {
		for _, r := range rules {
			r(n)
		}
	}
}

// withKey wants the key, which only kubeconfigs have a default for.
func withKey(n *node) { n.AllOf = append(n.AllOf, &node{Required: []string{"key"}}) }

func constant(v string) func(*node) {
	return func(n *node) { n.Type, n.Const, n.Default = nil, v, v }
}

func names(pattern, otherwise string) func(*node) {
	return func(n *node) { n.PropertyNames = &node{Pattern: pattern, PatternError: otherwise} }
}

func label(n *node) {
	n.Pattern = labels
	n.PatternError = "use small letters, digits and -, at most 63, starting and ending with a letter or digit"
}

func nonEmpty(n *node) { n.MinLength = 1 }

func between(low, high float64) func(*node) {
	return func(n *node) { n.Minimum, n.Maximum = &low, &high }
}

func examples(values ...any) func(*node) {
	return func(n *node) { n.Examples = values }
}

// readyOrNot leaves out hooks, which are for charts only.
func readyOrNot(n *node) *node {
	m := &node{}
	for i, v := range n.Enum {
		if v != string(plan.WaitHooks) {
			m.Enum = append(m.Enum, v)
			m.EnumDescriptions = append(m.EnumDescriptions, n.EnumDescriptions[i])
		}
	}
	return m
}
