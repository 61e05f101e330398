package helm

import (
	"context"
	"io"
	"net/http"
	"path"
	"strings"
)

// bounded ends requests with ctx: the libraries below give them none that ends.
type bounded struct {
	next http.RoundTripper
	ctx  context.Context
	// records, when set, ends those requests that are about the record of one
	// revision, so that Helm can write down how an operation ended which ctx ended.
	records context.Context
}

var _ http.RoundTripper = (*bounded)(nil)

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	bound := b.ctx
	// The Secret of one revision (helm.sh/helm/v3 pkg/storage/driver/secrets.go).
	if b.records != nil && strings.HasPrefix(path.Base(req.URL.Path), "sh.helm.release.v1.") {
		bound = b.records
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(bound, func() { cancel(context.Cause(bound)) })
	end := func() { stop(); cancel(nil) }
	resp, err := b.next.RoundTrip(req.WithContext(ctx))
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
