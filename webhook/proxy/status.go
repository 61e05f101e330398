package proxy

import (
	"cmp"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// inVain is the API server's last answer to a request that was held in vain, with
// words that say why.
func inVain(e *hold.Error, explanation string) metav1.Status {
	message := cmp.Or(strings.TrimSpace(e.Fault.Message), "the API server could not call a webhook")
	code, reason := int32(http.StatusInternalServerError), metav1.StatusReasonInternalError
	switch {
	case e.Fault.Kind != webhook.Server:
	case strings.Contains(message, "not yet ready to handle request"): // k8s.io/apiserver pkg/admission, NewForbidden
		code, reason = http.StatusForbidden, metav1.StatusReasonForbidden
	default:
		code, reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: message + " (kplan: " + explanation + ")",
		Details: &metav1.StatusDetails{
			Name: e.Request.Name, Kind: e.Request.Kind,
			Causes: []metav1.StatusCause{{Message: message}},
		},
	}
}

// WriteError answers a request in the API server's place, as one that failed.
func WriteError(w http.ResponseWriter, r *http.Request, code int, message string) {
	status := apierrors.NewGenericServerResponse(code, strings.ToLower(r.Method), resourceOf(r), "", "", 0, true).Status()
	status.Message = message
	writeStatus(w, r, status)
}

// writeStatus answers in what the client accepts: JSON, unless it wants protobuf
// alone.
func writeStatus(w http.ResponseWriter, r *http.Request, status metav1.Status) {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	media := runtime.ContentTypeJSON
	if accept := r.Header.Get("Accept"); strings.Contains(accept, runtime.ContentTypeProtobuf) &&
		!strings.Contains(accept, runtime.ContentTypeJSON) && !strings.Contains(accept, "*/*") {
		media = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	w.Header().Set("Content-Type", media)
	w.WriteHeader(int(status.Code))
	codec := scheme.Codecs.EncoderForVersion(info.Serializer, schema.GroupVersion{Version: "v1"})
	_ = codec.Encode(&status, w) // who does not read it any more is gone
}

// resourceOf names what a request is about, as far as its path tells.
func resourceOf(r *http.Request) schema.GroupResource {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var group string
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default:
		return schema.GroupResource{}
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return schema.GroupResource{Group: group, Resource: parts[0]}
}
