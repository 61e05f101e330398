package source

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// silence bounds how long a server may say nothing while something is fetched. The
// whole of it may take as long as it takes.
const silence = time.Minute

// silentError says that a server said nothing any more.
type silentError struct{ after time.Duration }

// Error implements error.
func (e *silentError) Error() string { return fmt.Sprintf("the server said nothing for %s", e.after) }

// patient ends requests whose server says nothing for a while.
type patient struct {
	next http.RoundTripper
	// after is silence, but in tests.
	after time.Duration
}

// RoundTrip implements http.RoundTripper.
func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	after := p.after
	if after == 0 {
		after = silence
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(after, func() { cancel(&silentError{after}) })
	req = req.Clone(ctx)
	if body := req.Body; body != nil && body != http.NoBody {
		req.Body = &sentBody{body, timer, after}
	}
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			return &sentBody{body, timer, after}, err
		}
	}
	resp, err := p.next.RoundTrip(req)
	if err != nil {
		timer.Stop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &patientBody{resp.Body, ctx, timer, after, func() { timer.Stop(); cancel(nil) }}
	return resp, nil
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (p *patient) CloseIdleConnections() {
	if next, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// sentBody is what is sent; a server says nothing until it has all of it.
type sentBody struct {
	io.ReadCloser
	timer *time.Timer
	after time.Duration
}

// Read implements io.Reader.
func (b *sentBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.after)
	return b.ReadCloser.Read(p)
}

// patientBody is an answer whose every part may take the time of the first.
type patientBody struct {
	io.ReadCloser
	ctx   context.Context
	timer *time.Timer
	after time.Duration
	end   func()
}

// Read implements io.Reader.
func (b *patientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(b.after)
	if err != nil && err != io.EOF && b.ctx.Err() != nil { //nolint:errorlint // readers return EOF itself
		err = context.Cause(b.ctx)
	}
	return n, err
}

// Close implements io.Closer.
func (b *patientBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
