package hold

import (
	"net/http"

	"github.com/kplan-dev/kplan/webhook"
)

// Whatever a held request is answered ends its hold. What lets others go is an
// answer that only comes once the webhook was called.

// provesAnswer reports whether an answer, with what it says about a webhook, proves that
// the webhook answered which the request was held for. The API server answers much
// before it calls webhooks: who may not do it, or is unknown (401, 403), a namespace
// that is missing or goes (404, 403), what other admission plugins refuse (403), an
// object that is malformed or invalid (400, 422), and of one to be changed that it is
// missing or has changed (404, 409). See k8s.io/apiserver pkg/endpoints/handlers and
// pkg/registry/generic/registry/store.go, and k8s.io/kubernetes
// pkg/kubeapiserver/options/plugins.go. A quota is looked at after webhooks, but
// nothing certain tells its 403 from the others.
func (h *heldRequest) provesAnswer(resp *http.Response, f webhook.Fault) bool {
	switch {
	case f.Class == webhook.Denied && h.fault.Kind == webhook.Server:
		return true
	case f.Class == webhook.Denied: // validating webhooks are called side by side, mutating ones before them
		return f.Webhook == h.fault.Webhook || h.transport.Gate.locate(f).Key() == h.fault.Key()
	case resp.StatusCode == http.StatusConflict: // a create finds the other one when it is stored
		return h.req.Method == http.MethodPost && routeOf(h.req).name == ""
	}
	return resp.StatusCode < http.StatusMultipleChoices
}
