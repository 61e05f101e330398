// Package match predicts which webhooks the API server calls for a request,
// before the request is sent:
//
//	m := match.Matcher{Cluster: match.Cluster{Labels: labels, Resources: resources}}
//	for _, hit := range m.Filter(ctx, entries, request) {
//		fmt.Println(hit.Entry, hit.Verdict.Outcome, hit.Verdict.Reason)
//	}
//
// It decides as k8s.io/apiserver pkg/admission/plugin/webhook/generic does
// (ShouldCallHook), and with its code where that can be imported: rules,
// objectSelector and matchConditions are the API server's own, compiler of CEL
// expressions included. A property test compares it with a real API server.
//
// # What a prediction does not prove
//
//   - That the webhook answers, or what. See package webhook for its readiness.
//   - That the request gets so far. Authentication, authorization, priority,
//     decoding and built-in admission plugins come first: in a namespace that does
//     not exist, or is being deleted, no webhook hears of a creation. Mutating
//     webhooks come before validating ones, and each may deny.
//   - That the object looks like that when its turn comes. The API server
//     fills in defaults and drops unknown fields; clients, admission plugins,
//     policies and earlier mutating webhooks change labels and fields that
//     selectors and conditions read. Set Request.Planned for an object
//     that the API server has not seen. When status is written, validating
//     webhooks see the stored labels instead of those that were sent.
//   - That the cluster stays as it is. Configurations, namespaces' labels and
//     served versions change, and each API server follows a moment later.
//   - That no other webhook is called: conversion webhooks, webhooks of API
//     servers behind an APIService, authentication, authorization and image
//     policy webhooks, and those of manifests on the API server's disk are unknown
//     here. Of an aggregated API server's objects it proves nothing.
//   - Which expressions an older API server understands: match conditions run in
//     the CEL environment of this program's k8s.io/apiserver.
//
// The package reads nothing from a cluster, calls no webhook and keeps no
// state but compiled expressions.
package match
