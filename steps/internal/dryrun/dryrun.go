// Package dryrun asks the API server what would become of objects, without writing
// any.
//
// It does not know what is sent, or how: that is the kinds'. Where the API server
// cannot be asked yet, it says why, and what the manifest alone makes of an object.
package dryrun

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/drift"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
)

const (
	// inFlight bounds the requests on their way.
	inFlight = 16
	// patience is how long one dry run may take: a webhook that does not answer has
	// 10 seconds by default.
	patience = 15 * time.Second
)

// Object is what would become of an object.
type Object struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	// Before is what the cluster has, and After what it would; nil for none.
	Before, After *unstructured.Unstructured
	// Unsent is why the API server was not asked; After is what the manifest says then.
	Unsent string
	// Err is why the API server would refuse it.
	Err error
	// Drift are fields that are put right, and that nobody asks for to be changed.
	Drift []drift.Field
}

// Of is an object that is to be sent.
func Of(manifest *unstructured.Unstructured) *Object {
	return &Object{Kind: manifest.GroupVersionKind(), Namespace: manifest.GetNamespace(), Name: manifest.GetName()}
}

// ID is Kind/namespace/name.
func (o *Object) ID() string {
	return watch.Target{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}.Object()
}

// Guess takes what a manifest says for what would become of an object.
func (o *Object) Guess(manifest *unstructured.Unstructured, why string) {
	o.Unsent, o.After = why, manifest
	if o.Before != nil {
		o.After = drift.Merged(manifest, o.Before)
	}
}

// Sender sends dry runs side by side. The zero value is ready.
type Sender struct {
	mu sync.Mutex
	// down says for kinds whose webhook does not answer what it lacks.
	down map[schema.GroupKind]string
}

// Each calls f for 0 to n-1, several at a time.
func Each(n int, f func(int)) {
	var group errgroup.Group
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error {
			f(i)
			return nil
		})
	}
	_ = group.Wait()
}

// Ask finds what would become of an object by sending it. One whose kind has a webhook
// that did not answer before is not sent.
func (s *Sender) Ask(ctx context.Context, o *Object, manifest *unstructured.Unstructured, send func(context.Context) (*unstructured.Unstructured, error)) {
	s.mu.Lock()
	why, down := s.down[o.Kind.GroupKind()]
	s.mu.Unlock()
	if down {
		o.Guess(manifest, why)
		return
	}
	bounded, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the dry run took too long"))
	defer cancel()
	after, err := send(bounded)
	if err == nil {
		o.After = after
		return
	}
	err = kubeerr.Redact(err, manifest)
	why, unreachable := cannotTell(err)
	if why == "" && ctx.Err() == nil && bounded.Err() != nil {
		why, unreachable = "the dry run took longer than "+patience.String(), true
	}
	switch {
	case why == "":
		o.Err = err
		o.After = o.Before
		return
	case unreachable:
		s.mu.Lock()
		if s.down == nil {
			s.down = map[schema.GroupKind]string{}
		}
		s.down[o.Kind.GroupKind()] = why
		s.mu.Unlock()
	}
	o.Guess(manifest, why)
}

// cannotTell says why an error is no judgement of the object: a webhook does not answer,
// or not to dry runs, or what it needs is not there yet. unreachable says that others of
// its kind would fail likewise, after some time.
func cannotTell(err error) (why string, unreachable bool) {
	for _, f := range webhook.Faults(err) {
		if f.Class != webhook.None && f.Class != webhook.Denied {
			return fmt.Sprintf("webhook %s does not answer yet", f.Webhook), true
		}
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return "", false
	}
	s := status.Status()
	switch {
	case strings.Contains(s.Message, "does not support dry run"):
		return "a webhook takes no dry runs (its sideEffects are not None)", true
	case s.Code == http.StatusNotFound && s.Details != nil && s.Details.Kind == "namespaces":
		return fmt.Sprintf("the namespace %s does not exist yet", s.Details.Name), false
	}
	return "", false
}

// Only is a transport whose writes are dry runs.
type Only struct{ Next http.RoundTripper }

// Wrap puts an Only around a transport.
func Wrap(next http.RoundTripper) http.RoundTripper { return Only{Next: next} }

// RoundTrip implements http.RoundTripper.
func (t Only) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return t.Next.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	query := req.URL.Query()
	query.Set("dryRun", "All")
	req.URL.RawQuery = query.Encode()
	return t.Next.RoundTrip(req)
}
