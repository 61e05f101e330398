package hold

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/webhook"
)

// maxStatus bounds how much of an error's body is read, in bytes. A Status is
// some KiB; what is longer is no answer of an API server.
const maxStatus = 1 << 20

// readFault looks whether a response is about a webhook. The response of a
// fault that can be waited for is closed; any other can be read as if nobody had.
func readFault(resp *http.Response, req *http.Request) (*http.Response, webhook.Fault, error) {
	if resp.StatusCode < http.StatusBadRequest { // a denial has any code of an error
		return resp, webhook.Fault{Class: webhook.None}, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus+1))
	if err != nil {
		resp.Body.Close()
		return nil, webhook.Fault{}, err
	}
	rest := resp.Body
	resp.Body = &readCloser{io.MultiReader(bytes.NewReader(b), rest), rest}
	if len(b) > maxStatus {
		return resp, webhook.Fault{Class: webhook.None}, nil
	}
	f := webhook.Classify(decodeStatus(uncompressed(resp.Header.Get("Content-Encoding"), b))).ForRequest(routeOf(req).groupVersion, idempotent(req))
	if f.Kind == webhook.Definition { // whether somebody brings that CRD is not known here
		return resp, webhook.Fault{Class: webhook.None}, nil
	}
	if f.Retryable() {
		rest.Close()
		return nil, f, nil
	}
	return resp, f, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

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
	case h.transport.Outage > 0 && h.fault.Kind == webhook.Server:
		return true // somebody is there
	case f.Class == webhook.Denied: // validating webhooks are called side by side, mutating ones before them
		return f.Webhook == h.fault.Webhook || h.transport.Gate.locate(f).Key() == h.fault.Key()
	case resp.StatusCode == http.StatusConflict: // a create finds the other one when it is stored
		return h.req.Method == http.MethodPost && routeOf(h.req).name == ""
	}
	return resp.StatusCode < http.StatusMultipleChoices
}

// cborTag begins CBOR of Kubernetes: it is the self-described form of RFC 8949.
var cborTag = []byte{0xd9, 0xd9, 0xf7}

// uncompressed undoes a content coding of HTTP, for a client that asked for it by
// itself; others get what http.Transport has undone. It is empty when that cannot be
// done, or gives more than an error's body may have.
func uncompressed(coding string, b []byte) []byte {
	if !strings.EqualFold(coding, "gzip") {
		return b // an API server knows no other (k8s.io/apiserver pkg/endpoints/handlers/responsewriters)
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	out, err := io.ReadAll(io.LimitReader(r, maxStatus+1))
	if err != nil || len(out) > maxStatus {
		return nil
	}
	return out
}

// decodeStatus reads a Status in JSON, protobuf or CBOR; nil when it is none.
func decodeStatus(b []byte) *metav1.Status {
	if bytes.HasPrefix(b, cborTag) {
		var s metav1.Status
		if err := direct.Unmarshal(b, &s); err != nil || s.Kind != "Status" {
			return nil
		}
		return &s
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(b, nil, nil)
	if err != nil {
		return nil
	}
	s, _ := obj.(*metav1.Status)
	return s
}
