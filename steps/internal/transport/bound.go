package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
)

// Bound is a transport that ends requests with a context. Libraries below a step
// (Helm's above all, helm/helm#12086) send requests that no context ends.
type Bound struct {
	Next    http.RoundTripper
	Context context.Context
	// Records, when set, ends those requests that are about the record of one
	// revision, so that Helm can write down how an operation ended which Context ended.
	Records context.Context
}

// RoundTrip implements http.RoundTripper.
func (b *Bound) RoundTrip(req *http.Request) (*http.Response, error) {
	bound := b.Context
	if b.Records != nil && isReleaseRecord(req) {
		bound = b.Records
	}
	resp, err := send(req.Context(), bound, 0, b.Next, req)
	if err != nil && bound.Err() != nil {
		err = context.Cause(bound)
	}
	return resp, err
}

// isReleaseRecord reports whether a request is about the Secret in which Helm keeps
// a revision of a release (helm.sh/helm/v3 pkg/storage/driver/secrets.go).
func isReleaseRecord(req *http.Request) bool {
	return strings.HasPrefix(path.Base(req.URL.Path), "sh.helm.release.v1.")
}

// writes reports whether a request may change something.
func writes(req *http.Request) bool {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// deliver sends a request, and lets a write that is on its way come to its end
// when the request's context ends.
func deliver(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	switch {
	case !writes(req):
		return base.RoundTrip(req)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return send(context.WithoutCancel(ctx), ctx, finish, base, req)
}

// send sends a request with a context of its own: a child of parent that ends a
// while after bound has ended, with bound's cause; at once when that is final, as a
// lost lock is: another run may be at work. It lasts until the answer was read.
func send(parent, bound context.Context, while time.Duration, next http.RoundTripper, req *http.Request) (*http.Response, error) {
	if bound.Err() != nil && (while == 0 || isFinal(bound)) {
		return nil, context.Cause(bound)
	}
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(bound, func() {
		if isFinal(bound) {
			while = 0
		}
		late := time.AfterFunc(while, func() { cancel(context.Cause(bound)) })
		context.AfterFunc(ctx, func() { late.Stop() })
	})
	end := func() { stop(); cancel(nil) }
	resp, err := next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = &body{resp.Body, end}
	return resp, nil
}

// isFinal reports whether the cause of a context's end lets nothing more be sent.
func isFinal(ctx context.Context) bool {
	final := interface{ Final() bool }(nil)
	return errors.As(context.Cause(ctx), &final) && final.Final()
}

// body calls end when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// pastEnd marks a context whose requests the end of an attempt does not end.
type pastEnd struct{}

// PastEnd returns a context for requests that the end of a step's attempt must not
// end, such as a last look at the live state. Whoever makes it bounds it.
func PastEnd(ctx context.Context) context.Context { return context.WithValue(ctx, pastEnd{}, true) }
