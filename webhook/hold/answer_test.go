package hold

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
}

// admits tells whether the survey takes a webhook to be admitting.
func admits(standings []survey.Status) bool {
	return slices.ContainsFunc(standings, func(st survey.Status) bool {
		return slices.ContainsFunc(st.Ladder, func(r webhook.Reading) bool { return r.Rung == webhook.Admitting && r.State == webhook.Ready })
	})
}

// What an API server answers before it calls webhooks goes back to the client, and
// proves nothing of the webhook: nobody else is let go for it.
func TestAnswersThatAreTheWebhooks(t *testing.T) {
	forbidden := `widgets.example.io "w1" is forbidden: User "jane" cannot create resource "widgets" in API group "example.io" in the namespace "demo"`
	for name, tc := range map[string]struct {
		answer *metav1.Status // nil: it is created
		method string
		proves bool
	}{
		"it passed":                      {proves: true},
		"it was denied":                  {answer: failure(403, metav1.StatusReasonForbidden, denial), proves: true},
		"it was denied, as not found":    {answer: failure(404, metav1.StatusReasonNotFound, denial), proves: true},
		"it was denied, as unauthorized": {answer: failure(401, metav1.StatusReasonUnauthorized, denial), proves: true},
		"there is one of its name, which is found when it is stored": {
			answer: failure(409, metav1.StatusReasonAlreadyExists, `widgets.example.io "w1" already exists`), proves: true,
		},
		"another webhook denied it":      {answer: failure(403, metav1.StatusReasonForbidden, strings.Replace(denial, "v.example.io", "other.example.io", 1))},
		"the credentials are refused":    {answer: failure(401, metav1.StatusReasonUnauthorized, "Unauthorized")},
		"the user may not":               {answer: failure(403, metav1.StatusReasonForbidden, forbidden)},
		"the namespace is not there":     {answer: failure(404, metav1.StatusReasonNotFound, `namespaces "demo" not found`)},
		"the namespace goes":             {answer: failure(403, metav1.StatusReasonForbidden, `widgets.example.io "w1" is forbidden: unable to create new content in namespace demo because it is being terminated`)},
		"a security policy refuses it":   {answer: failure(403, metav1.StatusReasonForbidden, `pods "w1" is forbidden: violates PodSecurity "restricted:latest": privileged`)},
		"an admission policy refuses it": {answer: failure(422, metav1.StatusReasonInvalid, `widgets.example.io "w1" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`)},
		"it is malformed":                {answer: failure(400, metav1.StatusReasonBadRequest, "the object provided is unrecognized")},
		"it is invalid":                  {answer: failure(422, metav1.StatusReasonInvalid, `Widget.example.io "w1" is invalid: spec.size: Required value`)},
		"somebody else changed the object": {
			answer: failure(409, metav1.StatusReasonConflict, "the object has been modified"), method: http.MethodPut,
		},
		"the object to be changed is not there": {
			answer: failure(404, metav1.StatusReasonNotFound, `widgets.example.io "w1" not found`), method: http.MethodPatch,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, fmt.Sprintf(configuration, 1, authority(t)), service, fmt.Sprintf(endpoint, 1, true))
				view := survey.New(c.client)
				defer view.Close()
				following := view.Subscribe(survey.Target{Match: at("ns/w")}, func() {})
				start := time.Now()
				var once sync.Once
				server := &apiServer{}
				server.answer = func(string) (status *metav1.Status, err error) {
					if d := time.Since(start); d > 10*time.Second {
						return nil, nil
					} else if status = internalError(refused); d > time.Second {
						once.Do(func() { status = tc.answer })
					}
					return status, nil
				}
				gate := NewGate(view)
				var told []Notice
				var letGo int
				var admitting bool
				tr := &Transport{Base: server, Gate: gate, Notify: func(n Notice) {
					if n.Event == Released && time.Since(start) < 10*time.Second {
						gate.mu.Lock()
						letGo = gate.queues["service ns/w"].inFlight
						gate.mu.Unlock()
						admitting = admits(following.Statuses())
						told = append(told, n)
					}
				}}
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() {
						req := create(t.Context(), t, fmt.Sprintf("w%d", i+10))
						if tc.method != "" {
							req.Method, req.URL = tc.method, req.URL.JoinPath(fmt.Sprintf("w%d", i+10))
						}
						_, err := tr.RoundTrip(req)
						require.NoError(t, err)
					})
				}
				wg.Wait()

				require.Len(t, told, 1)
				require.NoError(t, told[0].Err, "it is answered, whoever did it")
				if tc.proves {
					require.Equal(t, releaseBatch, letGo)
				} else {
					require.Zero(t, letGo)
				}
				require.Equal(t, tc.proves, admitting)
			})
		})
	}
}

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
