package hold

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/webhook"
)

// Request says what a held request is about.
type Request struct {
	// Verb is the HTTP method.
	Verb string
	// Kind is the object's kind where the body or [Transport.Kind] tells, else the
	// resource's name in the URL.
	Kind string
	// Namespace and Name are the object's; either may be empty.
	Namespace, Name string
}

// String returns Kind/namespace/name.
func (r Request) String() string {
	return webhook.Object{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}.String()
}

type notifyKey struct{}

// WithNotify returns a context whose requests a Transport tells f of as well,
// when they become held, are released, or their webhook stands otherwise. It is
// for a client that has other work to do while a request of its own is held. f
// is called from the request's goroutine and must not block.
func WithNotify(ctx context.Context, f func(Notice)) context.Context {
	return context.WithValue(ctx, notifyKey{}, f)
}

// notifyOf returns the function that WithNotify was given; nil without one.
func notifyOf(ctx context.Context) func(Notice) {
	f, _ := ctx.Value(notifyKey{}).(func(Notice))
	return f
}

// describe reads what the request is about from its URL and body. An object has one
// name, whatever request is about it.
func (h *heldRequest) describe() Request {
	at := routeOf(h.req)
	r := Request{Verb: h.req.Method, Namespace: at.namespace, Name: at.name}
	if o := h.object(); o.Kind != "DeleteOptions" {
		r.Kind, r.Name = o.Kind, cmp.Or(r.Name, o.Name, o.GenerateName)
	}
	if r.Kind == "" && h.transport.Kind != nil {
		if gv, err := schema.ParseGroupVersion(at.groupVersion); err == nil {
			r.Kind = h.transport.Kind(h.req.Context(), gv.WithResource(at.resource))
		}
	}
	r.Kind = cmp.Or(r.Kind, at.resource)
	return r
}

// object is kind and metadata of what the request sends, as far as its body tells.
func (h *heldRequest) object() (object metav1.PartialObjectMetadata) {
	if h.body == nil {
		return object
	}
	rc, err := h.body()
	if err != nil {
		return object
	}
	defer rc.Close()
	if b, err := io.ReadAll(rc); err == nil {
		object = metadataOf(b)
	}
	return object
}

// metadataOf reads kind and metadata of an object in JSON or CBOR, or of a built-in
// one in protobuf; they are empty when it is neither.
func metadataOf(b []byte) metav1.PartialObjectMetadata {
	var object metav1.PartialObjectMetadata
	if bytes.HasPrefix(b, cborTag) {
		_ = direct.Unmarshal(b, &object)
		return object
	}
	if bytes.HasPrefix(b, []byte("{")) {
		_ = json.Unmarshal(b, &object)
		return object
	}
	o, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(b, nil, nil)
	if err != nil {
		return object
	}
	object.Kind = gvk.Kind
	if m, err := meta.Accessor(o); err == nil {
		object.Name, object.GenerateName = m.GetName(), m.GetGenerateName()
		object.Labels, object.CreationTimestamp, object.ManagedFields = m.GetLabels(), m.GetCreationTimestamp(), m.GetManagedFields()
	}
	return object
}

// route is the resource that a request addresses.
type route struct {
	groupVersion, resource, namespace, name, subresource string
}

// routeOf reads the address of a resource: /api/v1/… or /apis/GROUP/VERSION/…,
// then namespaces/NS for namespaced ones, then RESOURCE[/NAME[/SUBRESOURCE]].
// See k8s.io/apiserver pkg/endpoints/request/requestinfo.go.
func routeOf(req *http.Request) route {
	r := route{groupVersion: "v1"} // of the core group, which no webhook converts
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	for i, p := range parts { // a proxy in front may put its own path before
		if p == "api" && len(parts) >= i+3 {
			parts = parts[i+2:]
			break
		}
		if p == "apis" && len(parts) >= i+4 {
			r.groupVersion, parts = parts[i+1]+"/"+parts[i+2], parts[i+3:]
			break
		}
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		r.namespace, parts = parts[1], parts[2:]
	}
	r.resource = parts[0]
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if len(parts) > 2 {
		r.subresource = parts[2]
	}
	return r
}

// idempotent reports that it does no harm to send a request twice. What was
// created exists then, and a JSON patch may add to a list. (A second delete finds
// nothing, and a second update conflicts: the client sees that it was done.)
func idempotent(req *http.Request) bool {
	return req.Method != http.MethodPost && req.Header.Get("Content-Type") != string(types.JSONPatchType)
}
