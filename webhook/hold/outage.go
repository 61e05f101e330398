package hold

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An API server that is away, or says that it takes no requests now, has judged
// nothing either. A Transport that waits for it keeps requests as it keeps those
// that wait for a webhook.

// unavailableError is an answer that says that nobody judges requests now.
type unavailableError struct {
	status  string
	message string
	// after is how long the server asks to wait.
	after time.Duration
	// maybe says that the request may have been carried out all the same.
	maybe bool
}

func (e *unavailableError) Error() string {
	return cmp.Or(e.message, "the API server answered "+e.status)
}

// waitsForServer reports whether the request is kept while the API server is away.
func (h *heldRequest) waitsForServer() bool {
	if h.transport.Outage > 0 {
		return !streams(h.req)
	}
	// It would have been with those that are held a moment before.
	return limiterKey(h.req) != "" && h.transport.Gate.holding()
}

// streams reports whether the answer of a request is read while it comes: a watch or
// a log. Who reads one knows how to go on after it broke.
func streams(req *http.Request) bool {
	q := req.URL.Query()
	return q.Get("watch") == "true" || q.Get("watch") == "1" || q.Has("follow") || routeOf(req).subresource == "log" ||
		req.Header.Get("Upgrade") != ""
}

// maxWhole bounds how much of an answer is read before it is handed on, in bytes.
const maxWhole = 8 << 20

// whole reads the answer of a request that waits for the API server, so that a
// connection which breaks within it is known. What is longer than maxWhole is handed
// on as it comes.
func (h *heldRequest) whole(resp *http.Response) (*http.Response, error) {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxWhole+1))
	if err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	rest := resp.Body
	resp.Body = &readCloser{io.MultiReader(bytes.NewReader(b), rest), rest}
	return resp, nil
}

// unavailable returns an error if an answer says that nobody judges requests now;
// the answer is closed then, and otherwise as if nobody had read it. Answers that
// are about a webhook are not asked about.
//
// What is sent twice because of a gateway, or of an etcd that changes its leader, may
// have been done (k8s.io/apiserver hands etcd's texts on as they are, see
// go.etcd.io/etcd api/v3rpc/rpctypes/error.go).
func (h *heldRequest) unavailable(resp *http.Response) (*http.Response, error) {
	e := &unavailableError{status: resp.Status}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		if routeOf(h.req).subresource == "eviction" { // a disruption budget says so
			return resp, nil
		}
	case http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusInternalServerError:
		e.maybe = true
	case http.StatusServiceUnavailable:
		if discovers(h.req) {
			return resp, nil
		}
	default:
		return resp, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	status := decodeStatus(uncompressed(resp.Header.Get("Content-Encoding"), b))
	if status != nil {
		e.message = status.Message
	}
	if resp.StatusCode == http.StatusInternalServerError && !electing(e.message) {
		rest := resp.Body
		resp.Body = &readCloser{io.MultiReader(bytes.NewReader(b), rest), rest}
		return resp, nil
	}
	resp.Body.Close()
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.after = time.Duration(s) * time.Second
	}
	return nil, e
}

// electing reports whether a text is of an etcd that has no leader, or did not
// answer in time.
func electing(text string) bool {
	return strings.Contains(text, "etcdserver: leader changed") || strings.Contains(text, "etcdserver: request timed out") ||
		strings.Contains(text, "etcdserver: no leader")
}

// discovers reports whether a request asks which kinds there are. One broken
// aggregated API answers it with 503 for as long as it is broken.
func discovers(req *http.Request) bool {
	switch routeOf(req).resource {
	case "api", "apis", "openapi", "version", "healthz", "livez", "readyz":
		return true
	}
	return false
}

// madeSince reports whether an answer to a read has the object that a create made
// which was sent elapsed ago: it is no older than that by the API server's own
// clock, has the labels that were sent, and the create's field manager wrote it.
func madeSince(resp *http.Response, sent, object metav1.PartialObjectMetadata, elapsed time.Duration, manager string) bool {
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil || manager == "" || object.CreationTimestamp.IsZero() {
		return false
	}
	// Both times are in whole seconds.
	if object.CreationTimestamp.Time.Before(now.Add(-elapsed - 2*time.Second)) {
		return false
	}
	for name, value := range sent.Labels { // those of a release's record name its run
		if object.Labels[name] != value {
			return false
		}
	}
	for _, e := range object.ManagedFields {
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" {
			return true
		}
	}
	return false
}

// fieldManager is the one that the API server notes for a request: the one it names, or
// the program in its User-Agent (k8s.io/apiserver pkg/endpoints/handlers/create.go).
func fieldManager(req *http.Request) string {
	program, _, _ := strings.Cut(req.UserAgent(), "/")
	return cmp.Or(req.URL.Query().Get("fieldManager"), program)
}
