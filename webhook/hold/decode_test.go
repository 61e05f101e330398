package hold

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/webhook"
)

// encodings are the media types in which an API server answers.
func encodings(t *testing.T) map[string]func(*metav1.Status) []byte {
	t.Helper()
	encode := func(s runtime.Serializer) func(*metav1.Status) []byte {
		return func(status *metav1.Status) []byte {
			var b bytes.Buffer
			require.NoError(t, scheme.Codecs.EncoderForVersion(s, schema.GroupVersion{Version: "v1"}).Encode(status, &b))
			return b.Bytes()
		}
	}
	all := map[string]func(*metav1.Status) []byte{runtime.ContentTypeCBOR: encode(cbor.NewSerializer(scheme.Scheme, scheme.Scheme))}
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
		require.True(t, ok)
		all[media] = encode(info.Serializer)
	}
	return all
}

// compressions are the content codings of HTTP that a client may ask for.
var compressions = map[string]func(io.Writer) io.WriteCloser{
	"":     func(w io.Writer) io.WriteCloser { return nopCloser{w} },
	"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// An error is understood in whatever form the client asked for, and handed on in
// that form if it is not held.
func TestReadFaultInEveryForm(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api/api/v1/namespaces/demo/configmaps", http.NoBody)
	require.NoError(t, err)
	for media, encode := range encodings(t) {
		for coding, compress := range compressions {
			t.Run(media+" "+coding, func(t *testing.T) {
				answer := func(text string) (*http.Response, []byte) {
					status := internalError(text)
					status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
					var b bytes.Buffer
					w := compress(&b)
					_, err := w.Write(encode(status))
					require.NoError(t, err)
					require.NoError(t, w.Close())
					h := http.Header{"Content-Type": {media}}
					if coding != "" {
						h.Set("Content-Encoding", coding)
					}
					return &http.Response{StatusCode: 500, Header: h, Body: io.NopCloser(bytes.NewReader(b.Bytes()))}, b.Bytes()
				}

				resp, _ := answer(refused)
				_, f, err := readFault(resp, req)
				require.NoError(t, err)
				require.Equal(t, webhook.Race, f.Class)
				require.Equal(t, "ns/w", f.ServiceKey())

				resp, sent := answer(denial)
				resp, f, err = readFault(resp, req)
				require.NoError(t, err)
				require.Equal(t, webhook.Denied, f.Class)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, sent, got, "the client gets what the API server sent")
			})
		}
	}
}

// A small answer that says it unpacks to a huge one takes no memory for it.
func TestReadFaultIsBounded(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(make([]byte, 64*maxStatus))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Empty(t, uncompressed("gzip", b.Bytes()))
	require.Empty(t, uncompressed("gzip", []byte("not gzip")))
}

// What a request is about is read from its body in each form that clients send.
func TestMetadataOfCBOR(t *testing.T) {
	var b bytes.Buffer
	object := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.io/v1", Kind: "Widget"},
		ObjectMeta: metav1.ObjectMeta{Name: "w1", Namespace: "demo"},
	}
	require.NoError(t, cbor.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &b))
	m := metadataOf(b.Bytes())
	require.Equal(t, "Widget w1", m.Kind+" "+m.Name)
}
