// Package hold keeps requests that a webhook could not judge, and sends them
// again the moment it can. Its centre is [Transport], an http.RoundTripper; put
// it under the client of any Go program:
//
//	view := survey.New(client)        // a dynamic client; it watches what webhooks depend on
//	defer view.Close()
//	gate := hold.NewGate(view)        // one for each cluster
//	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
//		return &hold.Transport{Base: rt, Gate: gate}
//	})
//
// Why that is safe: admission runs before storage (KEP-3488 and
// k8s.io/apiserver pkg/registry/generic/registry/store.go, Create calls
// createValidation before Storage.Create), so an error "failed calling webhook"
// proves that nothing was written. [webhook.Fault.Retryable] has the proof for
// each kind of error.
//
// It never holds or repeats what a webhook denied, does not change requests,
// and does not decide which webhook is meant to be there: a hold is bounded,
// and its [Error] says whose webhook it was.
package hold
