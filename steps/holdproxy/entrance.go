package holdproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/podlog"
	"github.com/kplan-dev/kplan/steps/internal/transport"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/proxy"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// entrance is where clients reach the cluster of one context. It reads the
// kubeconfig when the first one comes.
type entrance struct {
	proxy   *Proxy
	context cluster.Context
	url     string

	mu     sync.Mutex
	opened *opened
	closed bool
}

// opened is an entrance that was used.
type opened struct {
	handler *proxy.Handler
	survey  *survey.Survey
	pods    *podlog.Reporter
	attempt *transport.Attempt
}

// name is the context's in the kubeconfig for clients.
func (e *entrance) name() string { return cmp.Or(e.context.Name, "kplan") }

// ServeHTTP implements http.Handler.
func (e *entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o, err := e.open()
	if err != nil {
		text := "kplan cannot use context " + e.name() + ": " + err.Error()
		if hint := runner.HintOf(err); hint != "" {
			text += "; " + hint
		}
		proxy.WriteError(w, r, http.StatusBadGateway, text)
		return
	}
	o.handler.ServeHTTP(w, r)
}

// open returns what serves the entrance. A kubeconfig that cannot be used may be
// mended meanwhile: it is read again for the next request.
func (e *entrance) open() (*opened, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, proxy.ErrClosed
	case e.opened != nil:
		return e.opened, nil
	}
	config, err := e.context.Config()
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	own.UserAgent, own.Timeout, own.QPS, own.WarningHandler = e.proxy.config.UserAgent, 0, -1, rest.NoWarnings{}
	shared, err := cluster.NewShared(own)
	if err != nil {
		return nil, err
	}
	a := e.proxy.attempt.Load() // clients come when the action runs
	pods := podlog.New(a.ctx, shared.Pods, a.reporter)
	o := &opened{survey: shared.Survey, pods: pods, attempt: transport.Begin(a.ctx, diagnosis.WithoutRepeats(pods))}
	x := &transport.Explainer{Owners: diagnosis.Owners{Plan: &plan.Plan{}, Namespace: e.context.Namespace}, Gate: shared.Gate}
	o.handler, err = proxy.NewHandler(config, proxy.Options{
		Gate: shared.Gate, Timeout: e.proxy.config.HoldTimeout, Grace: e.proxy.config.MisconfiguredTimeout,
		Notify: o.notify, Explain: x.InVain, Passed: o.passed,
	})
	if err != nil {
		return nil, err
	}
	e.opened = o
	return o, nil
}

// close stops what follows the cluster. Clients get no answer any more.
func (e *entrance) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.opened == nil {
		return
	}
	e.opened.survey.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(proxy.ErrClosed) // nobody waits for the pods' last words
	_ = e.opened.pods.Close(ctx, nil)
	e.opened = nil
}

// errClientGone is why a request was given up whose client did.
var errClientGone = errors.New("its client did not wait any longer")

// notify tells of what is held. A denial is the client's to tell.
func (o *opened) notify(n hold.Notice) {
	if n.Event == hold.Denied {
		return
	}
	var held *hold.Error
	if errors.As(n.Err, &held) && errors.Is(held.Cause, context.Canceled) {
		gone := *held
		gone.Cause = errClientGone
		n.Err = &gone
	}
	o.attempt.Notify(n)
}

// passed tells of a request that is too large to be held.
func (o *opened) passed(r *http.Request) {
	o.attempt.Log(fmt.Sprintf("%s %s is too large to be kept, alone or beside others: it passes unheld", r.Method, r.URL.Path))
}
