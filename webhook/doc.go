// Package webhook knows admission webhooks as a client of the API server sees
// them: what an error says about one, whether it is worth waiting, and when a
// request that it could not judge may be sent again.
//
// Its centre is [Transport], an http.RoundTripper that holds such a request
// instead of failing it. Put it under the client of any Go program:
//
//	gate := webhook.NewGate(client)
//	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
//		return &webhook.Transport{Base: rt, Gate: gate}
//	})
//
// Why that is safe: admission runs before storage (KEP-3488 and
// k8s.io/apiserver pkg/registry/generic/registry/store.go, Create calls
// createValidation before Storage.Create), so an error "failed calling webhook"
// proves that nothing was written.
//
// The package does not install, configure or repair webhooks, does not decide
// whether an object is valid, and never retries a webhook's denial. It imports
// client-go and nothing of kplan's.
package webhook
