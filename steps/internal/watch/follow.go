package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

const (
	// pollEvery is how often objects are read where they may not be watched.
	pollEvery = time.Second
	// watchFor bounds one watch, so that objects are listed anew now and then:
	// some proxies stop handing on events, and do not end the request either.
	watchFor = 30 * time.Second
	// longList is a list that costs so much that it is made anew less often, by
	// this factor.
	longList, lessOften = 500, 10
	// shortWatch is a watch that ended so soon that beginning it anew at once could spin.
	shortWatch = time.Second
)

// update is what a follower learned: the objects of a look, one object of a
// watch, or why it cannot read them. A fatal one ends the wait.
type update struct {
	flock   flock
	list    []*unstructured.Unstructured
	names   []string // the look was at these only; nil: at all of the flock
	object  *unstructured.Unstructured
	deleted bool
	trouble string
	fatal   error
}

// follower reads the objects of one flock, or some of them, until its context ends.
type follower struct {
	session  *cluster.Session
	flock    flock
	names    []string // nil for a selector
	part     bool     // names are not all of the flock
	out      chan<- update
	notice   func(string)
	deletion bool
	bound    time.Duration // of one watch

	get     bool // objects are read one by one: listing is forbidden
	poll    bool // watching is forbidden
	listed  int  // how many objects the last list had
	refused int  // how often the credentials were refused in a row
}

// send hands u over, unless ctx ends first.
func (f *follower) send(ctx context.Context, u update) {
	u.flock = f.flock
	if f.part {
		u.names = f.names
	}
	select {
	case f.out <- u:
	case <-ctx.Done():
	}
}

// run lists and watches until ctx ends.
func (f *follower) run(ctx context.Context) {
	if f.apart() {
		f.runEach(ctx)
		return
	}
	delay := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(1.6),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0),
	)
	for ctx.Err() == nil {
		settled, err := f.once(ctx)
		if settled {
			delay.Reset()
			f.refused = 0
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			continue
		case f.split(err):
			f.runEach(ctx)
			return
		case f.degrade(err):
			continue
		case f.fatal(err):
			f.send(ctx, update{fatal: kubeerr.Explain(fmt.Errorf("reading %s: %w", f.what(), err), kubeerr.Op{Namespace: f.flock.namespace})})
			return
		case !errors.Is(err, errShortWatch) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			f.send(ctx, update{trouble: troubleText(err, f.what())})
		}
		select {
		case <-time.After(delay.NextBackOff()):
		case <-ctx.Done():
		}
	}
}

var errShortWatch = errors.New("the watch ended at once")

// once looks at the objects, tells of them, and then follows their changes.
// settled says that it got that far.
func (f *follower) once(ctx context.Context) (settled bool, err error) {
	m, err := f.flock.mapping(ctx, f.session)
	if meta.IsNoMatchError(err) && f.deletion {
		f.say("no kind " + f.what() + " is served: there is nothing to be deleted")
		f.send(ctx, update{})
		<-ctx.Done()
		return true, nil
	}
	if err != nil {
		return false, err
	}
	client := f.session.Resource(m, f.flock.namespace)
	u, version, err := f.read(ctx, client)
	if err != nil {
		if apierrors.IsNotFound(err) {
			f.session.Cluster.Refresh() // the kind is not served any more, or not yet
		}
		return false, err
	}
	f.send(ctx, u)
	if f.get || f.poll {
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
		}
		return true, nil
	}
	began := time.Now()
	err = f.watch(ctx, client, version)
	settled = time.Since(began) >= shortWatch
	if err == nil && !settled {
		err = errShortWatch
	}
	return settled, err
}

// look reads the objects once.
func (f *follower) look(ctx context.Context) (update, error) {
	m, err := f.flock.mapping(ctx, f.session)
	if meta.IsNoMatchError(err) && f.deletion {
		return update{flock: f.flock}, nil
	}
	if err != nil {
		return update{}, err
	}
	f.get = f.names != nil && len(f.names) <= 10 // in the time that is left
	u, _, err := f.read(ctx, f.session.Resource(m, f.flock.namespace))
	u.flock, u.names = f.flock, f.names
	return u, err
}

// read gets or lists the objects, and gives the version that a watch goes on from.
func (f *follower) read(ctx context.Context, client dynamic.ResourceInterface) (update, string, error) {
	if !f.get {
		list, err := client.List(ctx, f.options())
		if err != nil {
			return update{}, "", err
		}
		f.listed = len(list.Items)
		u := update{}
		for i := range list.Items {
			if f.wants(&list.Items[i]) {
				u.list = append(u.list, &list.Items[i])
			}
		}
		return u, list.GetResourceVersion(), nil
	}
	u := update{}
	for _, name := range f.names {
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return update{}, "", err
		default:
			u.list = append(u.list, o)
		}
	}
	return u, "", nil
}

func (f *follower) options() metav1.ListOptions {
	o := metav1.ListOptions{LabelSelector: f.flock.selector}
	if len(f.names) == 1 {
		// Roles that name their resources allow this list, and no other.
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", f.names[0]).String()
	}
	return o
}

// errNoWatch says that the objects may be read, but not watched.
type errNoWatch struct{ error }

func (e errNoWatch) Unwrap() error { return e.error }

// watch tells of changes since version until the watch ends; ends of all kinds
// but errors are nil.
func (f *follower) watch(ctx context.Context, client dynamic.ResourceInterface, version string) error {
	bound := f.bound
	if f.listed > longList {
		bound *= lessOften
	}
	// The server's end of it does not come through every proxy.
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("it is time to list again"))
	defer cancel()
	o := f.options()
	o.ResourceVersion, o.AllowWatchBookmarks = version, true
	o.TimeoutSeconds = new(int64(bound / time.Second))
	w, err := client.Watch(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err):
		return errNoWatch{err}
	case err != nil:
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			object, ok := event.Object.(*unstructured.Unstructured)
			switch {
			case event.Type == watch.Error && ctx.Err() != nil: // that the stream was cut
				return nil
			case event.Type == watch.Error:
				return apierrors.FromObject(event.Object)
			case event.Type == watch.Bookmark || !ok || !f.wants(object):
			default:
				f.send(ctx, update{object: object, deleted: event.Type == watch.Deleted})
			}
		}
	}
}

// wants leaves out the neighbours that a list of more than one name brings along.
func (f *follower) wants(o *unstructured.Unstructured) bool {
	return f.names == nil || slices.Contains(f.names, o.GetName())
}

// apart tells whether objects are followed one by one from the start: a list of
// all CustomResourceDefinitions is tens of megabytes where there are hundreds.
func (f *follower) apart() bool {
	return f.flock.kind.Group == "apiextensions.k8s.io" && 1 < len(f.names) && len(f.names) <= 100
}

// split tells whether the objects may not be listed together but perhaps one by one.
func (f *follower) split(err error) bool {
	return apierrors.IsForbidden(err) && !errors.As(err, &errNoWatch{}) && len(f.names) > 1 && !f.get
}

// runEach follows every name on its own until ctx ends.
func (f *follower) runEach(ctx context.Context) {
	var wg sync.WaitGroup
	for _, name := range f.names {
		one := *f
		one.names, one.part = []string{name}, true
		wg.Go(func() { one.run(ctx) })
	}
	wg.Wait()
}

// degrade falls back to polling when watching, or listing, is not allowed.
func (f *follower) degrade(err error) bool {
	switch {
	case errors.As(err, &errNoWatch{}) && !f.poll:
		f.poll = true
	case (apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)) && f.names != nil && !f.get:
		f.get = true
	default:
		return false
	}
	f.say(fmt.Sprintf("%s may not be watched; looking every %s instead", f.what(), pollEvery))
	return true
}

// fatal tells whether trying on is in vain. Credentials get one more chance,
// since a plugin may have been asked for new ones meanwhile.
func (f *follower) fatal(err error) bool {
	if apierrors.IsUnauthorized(err) {
		f.refused++
		return f.refused > 1
	}
	return runner.IsPermanent(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) ||
		apierrors.IsMethodNotSupported(err)
}

func (f *follower) what() string {
	if f.flock.arg != "" {
		return f.flock.arg
	}
	return f.flock.kind.GroupKind().String()
}

func (f *follower) say(s string) {
	if f.notice != nil {
		f.notice(s)
	}
}

func troubleText(err error, what string) string {
	if meta.IsNoMatchError(err) {
		return fmt.Sprintf("the API server does not know %s yet", what)
	}
	return "cannot be read: " + err.Error()
}
