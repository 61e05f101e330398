package thousand

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hang answers nothing until the client has gone.
func Hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }

// Throttle answers the first so many requests that the cluster has too many.
func Throttle(first int32) Handler {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n.Add(1) > first {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "1")
		Answer(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Too many requests, please try again later.")
	}
}

// IsWrite reports whether a request writes an object whose name or path has a text.
func IsWrite(r *http.Request, has string) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return strings.Contains(r.URL.Path, has)
	}
	return false
}

// Webhook answers writes whose path has a text that a webhook failed, from the first one on
// for some time; a time below zero is for ever.
func Webhook(has, message string, last time.Duration) Handler {
	var (
		once sync.Once
		end  time.Time
	)
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !IsWrite(r, has) {
			next.ServeHTTP(w, r)
			return
		}
		once.Do(func() { end = time.Now().Add(last) })
		if last >= 0 && time.Now().After(end) {
			next.ServeHTTP(w, r)
			return
		}
		Answer(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, message)
	}
}

// CutAfterWrite has the cluster do the first write whose path has a text, and then cuts the
// connection in place of an answer.
func CutAfterWrite(has string) Handler {
	var cut atomic.Bool
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !IsWrite(r, has) || cut.Swap(true) {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(&discard{}, r)
		panic(http.ErrAbortHandler)
	}
}

// discard is an answer that nobody gets.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// RotateAt has the cluster accept another token from its so manyth request on.
func RotateAt(c *Cluster, request int32) Handler {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n.Add(1) == request {
			c.Rotate()
			Answer(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
			return
		}
		next.ServeHTTP(w, r)
	}
}

// Unauthorized refuses all credentials.
func Unauthorized(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	Answer(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
}

// Forbid refuses writes whose path has a text.
func Forbid(has string) Handler {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !IsWrite(r, has) {
			next.ServeHTTP(w, r)
			return
		}
		Answer(w, http.StatusForbidden, metav1.StatusReasonForbidden, `configmaps "applied" is forbidden: User "fleet" cannot patch resource "configmaps" in API group "" in the namespace "here"`)
	}
}

// Gate lets writes whose path has a text wait until the channel is closed, or the client has
// gone.
func Gate(has string, open <-chan struct{}) Handler {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if IsWrite(r, has) {
			select {
			case <-open:
			case <-r.Context().Done():
				return
			}
		}
		next.ServeHTTP(w, r)
	}
}
