package hold

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"
)

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
