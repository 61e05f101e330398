package hold

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kplan-dev/kplan/webhook"
)

// A held request whose connection breaks after it left may have been done. What
// may be done twice is sent again. A create is not: whether its object exists, and
// who made it, decides, and until somebody has read that the request is in doubt.

// survives reports whether a request goes on whose connection broke with err.
func (h *heldRequest) survives(err error) bool {
	if h.req.Context().Err() != nil {
		return false
	}
	if idempotent(h.req) {
		return true
	}
	if h.req.Method != http.MethodPost || h.objectName() == "" {
		return false
	}
	h.broken = err
	return true
}

// serverAway returns the fault of a request whose first try met no API server that
// judges requests, or lost its connection, if it waits for that.
func (h *heldRequest) serverAway(err error) (webhook.Fault, bool) {
	if h.req.Context().Err() != nil || unauthorized(err) || !h.waitsForServer() {
		return webhook.Fault{}, false
	}
	if h.left && !h.survives(err) {
		return webhook.Fault{}, false
	}
	return webhook.Fault{Kind: webhook.Server, Class: webhook.Race, Cause: err.Error(), Message: err.Error()}, true
}

// objectName is the name of the object that the request creates; "" when the
// API server makes it up, or the body does not tell.
func (h *heldRequest) objectName() string { return h.object().Name }

// made looks for the object of a create that may have been done. It returns the
// answer that the create would have got if that made the object, and an error if
// somebody else may have made it, or nobody can tell yet. With neither it is not there.
func (h *heldRequest) made() (*http.Response, error) {
	url := h.req.URL.JoinPath(h.objectName())
	url.RawQuery = ""
	req := h.req.Clone(h.req.Context())
	req.Method, req.URL, req.Body, req.GetBody, req.ContentLength = http.MethodGet, url, nil, nil, 0
	req.Header.Del("Content-Type")
	resp, err := h.base().RoundTrip(req)
	if unauthorized(err) {
		return nil, h.outcomeUnknown(err)
	}
	if err != nil {
		h.left = false // nothing was written
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxWhole))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil
	case resp.StatusCode == http.StatusForbidden: // who may not read must take the worst for granted
		return nil, h.broken
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, h.outcomeUnknown(apierrors.NewUnauthorized("the API server refuses the credentials"))
	case resp.StatusCode != http.StatusOK || err != nil:
		h.left = false
		return nil, fmt.Errorf("reading %s: %s", h.request, resp.Status)
	case !madeSince(resp, h.object(), metadataOf(uncompressed(resp.Header.Get("Content-Encoding"), b)), time.Since(h.sent), fieldManager(h.req)):
		return nil, h.broken
	}
	resp.Status, resp.StatusCode = "201 Created", http.StatusCreated
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp, nil
}

// unauthorized reports whether an error says that the credentials were refused.
func unauthorized(err error) bool {
	var e interface{ Unauthorized() bool }
	return errors.As(err, &e) && e.Unauthorized()
}

// outcomeUnknown returns the error of a create that may have been done, where the
// credentials are refused with which that was to be found out.
func (h *heldRequest) outcomeUnknown(refusal error) error {
	return &unauthorizedError{fmt.Errorf("the connection of the create of %s broke (%w), and whether it was done cannot be read: %w", h.request, h.broken, refusal)}
}

// unauthorizedError says that the credentials were refused.
type unauthorizedError struct{ error }

func (e *unauthorizedError) Unwrap() error { return e.error }

// Unauthorized implements the interface that unauthorized looks for.
func (e *unauthorizedError) Unauthorized() bool { return true }
