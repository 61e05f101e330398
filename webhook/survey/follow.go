package survey

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/webhook/listwatch"
)

const (
	// poll is the time between lists where watching is forbidden.
	poll = 2 * time.Second
	// retryRefused is the time between lists where listing is forbidden.
	retryRefused = 10 * time.Second
	// relistCRDs is how long CRDs are watched at once: their schemas make a list large.
	relistCRDs = 5 * time.Minute
	// page is how many objects a list asks for at once; CRDs have up to 1 MiB each.
	page = 50
)

// follower keeps a copy of one collection, as values of T. Its run method ends
// with its context; the other methods may be called by any goroutine.
type follower[T any] struct {
	api dynamic.ResourceInterface
	// what names the collection for people: the resource, and where.
	what    string
	options metav1.ListOptions
	relist  time.Duration // 0 is the default
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
	key     string
	version string // tells it from the object before and after a change
	value   T
}

// collectionStatus is how well a collection is known.
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

// settled reports whether the collection was read, or cannot be.
func (s collectionStatus) settled() bool { return s.synced || s.unread != "" }

// unread says that nothing was read so far.
const unread = "not read yet"

// unknownReason returns the reason why the collection's state is unknown; "" if it is not.
func (s collectionStatus) unknownReason() string {
	if !s.settled() {
		return unread
	}
	return s.unread
}

// run lists and watches until ctx ends.
func (f *follower[T]) run(ctx context.Context) {
	f.options.Limit = page
	c := listwatch.Collection[item[T]]{
		Client:  func(context.Context) (dynamic.ResourceInterface, error) { return f.api, nil },
		Options: f.options, Relist: f.relist, Poll: poll,
		Read: func(u *unstructured.Unstructured) (item[T], bool) {
			value, err := f.read(u)
			return item[T]{u.GetNamespace() + "/" + u.GetName(), string(u.GetUID()) + " " + u.GetResourceVersion(), value}, err == nil
		},
		Listed:  f.listed,
		Changed: f.itemChanged,
		Watched: func(can bool) { f.setStatus(func(s *collectionStatus) { s.polled = !can }) },
		Retry: func(err error) (time.Duration, bool) {
			if listwatch.Refused(err) {
				f.setStatus(func(s *collectionStatus) { s.unread, s.denied = "may not list "+f.what, true })
				return retryRefused, true
			}
			why := "cannot list " + f.what + ": " + strings.TrimSpace(err.Error())
			f.setStatus(func(s *collectionStatus) { s.unread, s.denied = why, false })
			return 0, true
		},
	}
	_ = c.Follow(ctx) // it never gives up
}

// listed takes the whole collection.
func (f *follower[T]) listed(all []item[T]) {
	items := make(map[string]item[T], len(all))
	for _, i := range all {
		items[i.key] = i
	}
	f.mu.Lock()
	news := !f.at.synced || f.at.unread != "" ||
		!maps.EqualFunc(f.items, items, func(a, b item[T]) bool { return a.version == b.version })
	f.items, f.at.synced, f.at.unread, f.at.denied = items, true, "", false
	f.mu.Unlock()
	if news {
		f.changed()
	}
}

// itemChanged takes one change of one object.
func (f *follower[T]) itemChanged(i item[T], deleted bool) {
	f.mu.Lock()
	if deleted {
		delete(f.items, i.key)
	} else {
		f.items[i.key] = i
	}
	f.mu.Unlock()
	f.changed()
}

// setStatus changes the status, and tells when it is another then.
func (f *follower[T]) setStatus(change func(*collectionStatus)) {
	f.mu.Lock()
	before := f.at
	change(&f.at)
	news := f.at != before
	f.mu.Unlock()
	if news {
		f.changed()
	}
}

// values returns the objects in the order of their names.
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
