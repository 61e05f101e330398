package survey

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	// relist is how long a collection is watched until it is listed anew, so
	// that a missed event is made up for (zarf-dev/zarf#4716).
	relist = 30 * time.Second
	// relistLarge is the same for CRDs, whose schemas make a list large.
	relistLarge = 5 * time.Minute
	// poll is the distance of lists where watching is forbidden.
	poll = 2 * time.Second
	// denied is the distance of tries where listing is forbidden.
	denied = 10 * time.Second
	// away bounds the distance of tries while the API server is away.
	away = 2 * time.Second
	// breath is the least distance of watches that end at once.
	breath = 500 * time.Millisecond
	// page is how many objects a list asks for at once; CRDs have up to 1 MiB each.
	page = 50
)

// follower keeps a copy of one collection, as values of T. Its run method ends
// with its context; the other methods may be called by any goroutine.
//
// It is no informer of client-go's, because those neither poll where watching
// is forbidden nor list anew while a watch goes on.
type follower[T any] struct {
	api dynamic.ResourceInterface
	// what names the collection for people: the resource, and where.
	what    string
	options metav1.ListOptions
	// relist is how long the collection is watched at once.
	relist time.Duration
	// read makes a T of an object; one that it cannot make is left out.
	read func(*unstructured.Unstructured) (T, error)
	// changed is told of every change, by the goroutine of run.
	changed func()

	mu    sync.Mutex
	items map[string]item[T]
	at    collectionStatus
}

// item is what is kept of an object.
type item[T any] struct {
	version string // tells it from the object before and after a change
	value   T
}

// status is how well a collection is known.
type collectionStatus struct {
	// synced says that it was read at least once.
	synced bool
	// unread says why it cannot be read; what is known is as last read then.
	unread string
	// denied says that unread is for want of rights.
	denied bool
	// polled says that it is listed from time to time instead of watched.
	polled bool
}

// settled tells whether the collection was read, or cannot be.
func (s collectionStatus) settled() bool { return s.synced || s.unread != "" }

// unread says that nothing was read so far.
const unread = "not read yet"

// blind says why it is not known how the collection is, "" if it is.
func (s collectionStatus) unknownReason() string {
	if !s.settled() {
		return unread
	}
	return s.unread
}

// values are the objects in the order of their names.
func (f *follower[T]) values() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	values := make([]T, 0, len(f.items))
	for _, name := range slices.Sorted(maps.Keys(f.items)) {
		values = append(values, f.items[name].value)
	}
	return values
}

func (f *follower[T]) status() collectionStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// name names the collection for people.
func (f *follower[T]) name() string { return f.what }

// run lists and watches in turn until ctx ends.
func (f *follower[T]) run(ctx context.Context) {
	patience := patient()
	for ctx.Err() == nil {
		version, err := f.list(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case forbidden(err):
			f.set(func(s *collectionStatus) { s.unread, s.denied = "may not list "+f.what, true })
			pause(ctx, denied)
			continue
		case err != nil:
			f.set(func(s *collectionStatus) {
				s.unread, s.denied = "cannot list "+f.what+": "+strings.TrimSpace(err.Error()), false
			})
			pause(ctx, patience.Step())
			continue
		}
		patience = patient()
		began := time.Now()
		if err = f.watch(ctx, version); forbidden(err) {
			f.set(func(s *collectionStatus) { s.polled = true })
			pause(ctx, poll)
		} else if time.Since(began) < breath {
			pause(ctx, breath)
		}
	}
}

// patient is the distance of tries while the API server is away.
func patient() *wait.Backoff {
	return &wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 16, Cap: away}
}

// set changes the status, and tells when it is another then.
func (f *follower[T]) set(change func(*collectionStatus)) {
	f.mu.Lock()
	before := f.at
	change(&f.at)
	news := f.at != before
	f.mu.Unlock()
	if news {
		f.changed()
	}
}

// list reads the whole collection.
func (f *follower[T]) list(ctx context.Context) (version string, err error) {
	items := map[string]item[T]{}
	options := f.options
	options.Limit = page
	for {
		l, err := f.api.List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range l.Items {
			f.put(items, &l.Items[i])
		}
		version, options.Continue = l.GetResourceVersion(), l.GetContinue()
		if options.Continue == "" {
			break
		}
	}
	f.mu.Lock()
	news := !f.at.synced || f.at.unread != "" ||
		!maps.EqualFunc(f.items, items, func(a, b item[T]) bool { return a.version == b.version })
	f.items, f.at.synced, f.at.unread, f.at.denied = items, true, "", false
	f.mu.Unlock()
	if news {
		f.changed()
	}
	return version, nil
}

func (f *follower[T]) put(items map[string]item[T], u *unstructured.Unstructured) {
	if value, err := f.read(u); err == nil {
		items[key(u)] = item[T]{string(u.GetUID()) + " " + u.GetResourceVersion(), value}
	}
}

func key(u *unstructured.Unstructured) string { return u.GetNamespace() + "/" + u.GetName() }

// watch follows the collection from a version on, until it is to be listed
// anew: also when the watch hangs and says nothing any more.
func (f *follower[T]) watch(ctx context.Context, version string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.relist, errors.New("it is time to list again"))
	defer cancel()
	options := f.options
	options.ResourceVersion = version
	w, err := f.api.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	f.set(func(s *collectionStatus) { s.polled = false })
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if e.Type == watch.Error {
				return apierrors.FromObject(e.Object)
			}
			f.event(e)
		}
	}
}

// event takes one change of one object into account.
func (f *follower[T]) event(e watch.Event) {
	u, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type == watch.Bookmark {
		return
	}
	f.mu.Lock()
	if e.Type == watch.Deleted {
		delete(f.items, key(u))
	} else {
		f.put(f.items, u)
	}
	f.mu.Unlock()
	f.changed()
}

func forbidden(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
