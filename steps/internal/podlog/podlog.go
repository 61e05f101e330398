// Package podlog tells what the pods say that a step waits for: their logs, why
// they do not run, and what Kubernetes warns of.
//
// It sees what a step waits for in the step's own reports: a Job, a Deployment, a
// webhook's Service. It decides nothing, and the step never waits for it while it
// works. It takes no rights: what may not be read is told once and left alone. It
// hides no secrets: package runner does, in all events.
package podlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/webhook"
)

const (
	// patience is how long the same is waited for before its pods are looked at:
	// most things come sooner. A Job's pods are looked at from the start.
	patience = 5 * time.Second
	// lastWords is how long the end of a step that failed is put off for what its
	// pods said last, and fewWords is that for one that did not fail.
	lastWords = 2 * time.Second
	fewWords  = 300 * time.Millisecond
	// longTrouble is how many characters of a pod's trouble an error has.
	longTrouble = 300
)

// Source is the cluster that reporters read from. It is safe for concurrent use.
type Source struct {
	client kubernetes.Interface

	// refused has what may not be read, by its name and namespace: it is not asked for
	// again.
	refused sync.Map
}

// NewSource makes the source of reporters; the requests of client must not be held for
// webhooks.
func NewSource(client kubernetes.Interface) *Source {
	return &Source{client: client}
}

// refuse notes that something may not be read, and reports whether that is new.
func (s *Source) refuse(what, namespace string) bool {
	_, known := s.refused.LoadOrStore([2]string{what, namespace}, true)
	return !known
}

func (s *Source) refuses(what, namespace string) bool {
	_, known := s.refused.Load([2]string{what, namespace})
	return known
}

// Reporter is the reporter of one attempt of a step: it hands reports on, and adds what
// the pods say. It is safe for concurrent use.
type Reporter struct {
	*Source
	reporter runner.Reporter
	began    time.Time

	// ctx ends all requests and goroutines; Close does that.
	ctx    context.Context
	cancel context.CancelCauseFunc
	all    sync.WaitGroup

	mu       sync.Mutex // also of its watchers and targets
	closed   bool
	targets  map[ref]*target
	current  ref                 // of the latest progress
	watchers map[string]*watcher // the namespaces that are watched
	said     map[string]bool     // what is told once
	streams  map[string]bool     // the logs that were read, see stream.key
	follows  map[string]func()   // ends those that are followed, by namespace/name of the pod
	pods     map[string]int      // how many logs of a pod were read, by namespace/name
	warnings int                 // how many were told
	// open counts what is about to end by itself and worth waiting for: first
	// looks, and logs of what has ended. quiet is closed when there is nothing, if
	// somebody waits for that.
	open  int
	quiet chan struct{}
}

var _ runner.Reporter = (*Reporter)(nil)

var errOver = errors.New("the attempt is over")

// New makes the reporter of an attempt. The caller closes it: ctx gives values only.
func New(ctx context.Context, s *Source, r runner.Reporter) *Reporter {
	t := &Reporter{
		Source: s, reporter: r, began: time.Now(),
		targets: map[ref]*target{}, watchers: map[string]*watcher{}, said: map[string]bool{},
		streams: map[string]bool{}, follows: map[string]func(){}, pods: map[string]int{},
	}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return t
}

// Report implements runner.Reporter. Once the reporter is closed it does nothing.
func (t *Reporter) Report(r runner.Report) {
	switch {
	case t.isClosed():
		return
	case r.Type == runner.TypeProgress && r.Object != "":
		to, ok := parse(r.Object)
		t.turn(to)
		if ok {
			r.Message = t.track(to, &r)
		}
	case r.Webhook == nil || r.Webhook.Service == "":
	case r.Type == runner.TypeHeld, r.Type == runner.TypeWebhook && lacks(r.Webhook):
		t.track(serviceOf(r.Webhook), nil)
	case r.Type == runner.TypeReleased, r.Type == runner.TypeWebhook:
		t.forget(serviceOf(r.Webhook))
	}
	t.reporter.Report(r)
}

// turn notes what the step's progress is about now: what it was about before is not
// told again, for it would seem to go backwards.
func (t *Reporter) turn(to ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current = to
}

func lacks(w *runner.Webhook) bool {
	return w.State == string(webhook.Waiting) || w.State == string(webhook.Failed)
}

// Close ends the reporter, once the attempt has ended with err. The pods of what was
// waited for get a moment for their last words, and what is wrong with them is
// added to the hint of err. An attempt that was told to stop (ctx) is not put off.
// To close it again does nothing.
func (t *Reporter) Close(ctx context.Context, err error) error {
	if t.isClosed() {
		return err
	}
	timeout := (*runner.TimeoutError)(nil)
	if cause := context.Cause(ctx); cause == nil || errors.As(cause, &timeout) {
		bound := fewWords
		if err != nil {
			bound = lastWords
			t.activateAll()
		}
		t.await(bound)
	}
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel(errOver)
	t.all.Wait()
	return t.explain(err)
}

func (t *Reporter) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// await waits until there is nothing left to be waited for, at most as long as
// bound says.
func (t *Reporter) await(bound time.Duration) {
	t.mu.Lock()
	if t.open == 0 {
		t.mu.Unlock()
		return
	}
	quiet := make(chan struct{})
	t.quiet = quiet
	t.mu.Unlock()
	select {
	case <-quiet:
	case <-time.After(bound):
	}
}

// settle says that one of those that open counts has ended.
func (t *Reporter) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open--; t.open == 0 && t.quiet != nil {
		close(t.quiet)
		t.quiet = nil
	}
}

// begin starts a goroutine, which t.ctx must end, unless the reporter is closed. The
// caller holds mu.
func (t *Reporter) begin(f func()) {
	if !t.closed {
		t.all.Go(f)
	}
}

// explain adds to an error what is wrong with the pods of what was waited for, and
// to its hint what that means. Of a webhook's pods the error tells itself. An error
// with a method OfLog(lines []string) string says itself what the last lines mean.
func (t *Reporter) explain(err error) error {
	if err == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, to := range slices.SortedFunc(maps.Keys(t.targets), ref.compare) {
		c := t.targets[to]
		if to.kind == service || c.worst == "" || !names(err.Error(), to.name) {
			continue
		}
		hint, words := runner.HintOf(err), webhook.Explain(c.worst)
		switch {
		case tells(err.Error(), c.worst):
		case hint == "":
			hint = words
		case words != "" && !strings.Contains(hint, words):
			hint = words + "; " + hint
		}
		trouble := &troubleError{error: err, trouble: cut(c.worst, longTrouble), lines: c.lastLines()}
		var reader interface{ OfLog(lines []string) string }
		if errors.As(err, &reader) {
			trouble.means = reader.OfLog(c.lines)
		}
		return runner.WithHint(trouble, hint)
	}
	return err
}

// troubleError is an error with what is wrong with a pod.
type troubleError struct {
	error
	trouble string
	lines   string
	means   string // "" if nobody knows
}

func (e *troubleError) Unwrap() error { return e.error }

// Error has the trouble in its first line, which says what was waited for; what an
// API server said may be below it.
func (e *troubleError) Error() string {
	text := e.error.Error()
	if e.means != "" {
		text = e.means + ": " + text
	}
	if tells(text, e.trouble) {
		return text + e.lines
	}
	first, rest, more := strings.Cut(text, "\n")
	if first += "; " + e.trouble; more {
		first += "\n" + rest
	}
	return first + e.lines
}

// tells reports whether a text tells of the pod that has a trouble, which begins with
// "pod NAME ".
func tells(text, trouble string) bool {
	words := strings.SplitN(trouble, " ", 3)
	return strings.Contains(text, trouble) || len(words) == 3 && strings.Contains(text, words[0]+" "+words[1]+" ")
}

// lastLines is what a target's pods said last, as the end of an error. The caller holds
// mu.
func (c *target) lastLines() string {
	if len(c.lines) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("\n" + c.spoke + " said last:")
	for _, l := range c.lines {
		text.WriteString("\n  " + cut(l, longTrouble))
	}
	return text.String()
}

// names reports whether a text has the name of an object, and not as a part of another
// word.
func names(text, name string) bool {
	return regexp.MustCompile(`(^|[^-.\w])` + regexp.QuoteMeta(name) + `($|[^-.\w]|\.(\s|$))`).MatchString(text)
}

// forbidden says that something may not be read, once for all reporters.
func (t *Reporter) forbidden(what, namespace string, err error) {
	if t.refuse(what, namespace) {
		t.log("", "", fmt.Sprintf("%s in namespace %s are not shown: %s", what, namespace, line(err.Error())))
	}
}

// log tells what an object says while something is waited for, see runner.Event.
func (t *Reporter) log(of, object, text string) {
	t.reporter.Report(runner.Report{Type: runner.TypeLog, Of: of, Object: object, Message: text})
}
