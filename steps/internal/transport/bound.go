package transport

import (
	"context"
	"io"
	"net/http"
	"path"
	"strings"
)

// Bound ends requests with ctx: the libraries below give them none that ends.
type Bound struct {
	Next    http.RoundTripper
	Context context.Context
	// Records, when set, ends those requests that are about the record of one
	// revision, so that Helm can write down how an operation ended which ctx ended.
	Records context.Context
}

var _ http.RoundTripper = (*Bound)(nil)

// RoundTrip implements http.RoundTripper.
func (b *Bound) RoundTrip(req *http.Request) (*http.Response, error) {
	bound := b.Context
	// The Secret of one revision (helm.sh/helm/v3 pkg/storage/driver/secrets.go).
	if b.Records != nil && strings.HasPrefix(path.Base(req.URL.Path), "sh.helm.release.v1.") {
		bound = b.Records
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(bound, func() { cancel(context.Cause(bound)) })
	end := func() { stop(); cancel(nil) }
	resp, err := b.Next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		end()
		return nil, err
	}
	resp.Body = &boundBody{resp.Body, end}
	return resp, nil
}

// boundBody lets go of the bound when it is closed.
type boundBody struct {
	io.ReadCloser
	end func()
}

func (b *boundBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
