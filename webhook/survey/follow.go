package survey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	// relist is how long a collection is watched until it is listed anew, so
	// that a missed event is made up for (zarf-dev/zarf#4716).
	relist = 30 * time.Second
	// hung is how long past that a watch may say nothing at all.
	hung = 5 * time.Second
	// poll is the distance of lists where watching is forbidden.
	poll = 2 * time.Second
	// denied is the distance of tries where listing is forbidden.
	denied = 10 * time.Second
	// away bounds the distance of tries while the API server is away.
	away = 2 * time.Second
	// page is how many objects a list asks for at once.
	page = 250
)

// follower keeps a copy of one collection. Its run method ends with its
// context; the other methods may be called by any goroutine.
//
// It is no informer of client-go's, because those neither poll where watching
// is forbidden nor list anew while a watch goes on.
type follower struct {
	api      dynamic.ResourceInterface
	resource string
	options  metav1.ListOptions
	// keep cuts an object down to what is needed; nil keeps all.
	keep func(*unstructured.Unstructured) *unstructured.Unstructured
	// changed is told of every change, by the goroutine of run.
	changed func()

	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured
	synced  bool
	unread  string
	polled  bool
}

// seen is what a follower knows.
type seen struct {
	objects []*unstructured.Unstructured
	// synced says that the collection was read at least once.
	synced bool
	// unread says why it cannot be read; objects are as last read then.
	unread string
	// polled says that it is listed from time to time instead of watched.
	polled bool
}

func (f *follower) seen() seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := seen{synced: f.synced, unread: f.unread, polled: f.polled}
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		s.objects = append(s.objects, f.objects[name])
	}
	return s
}

// run lists and watches in turn until ctx ends.
func (f *follower) run(ctx context.Context) {
	failing := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(away), backoff.WithMaxElapsedTime(0),
	)
	for ctx.Err() == nil {
		version, err := f.list(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.set(func() bool {
				why := f.why("list", err)
				news := f.unread != why
				f.unread = why
				return news
			})
			if forbidden(err) {
				pause(ctx, denied)
			} else {
				pause(ctx, failing.NextBackOff())
			}
			continue
		}
		failing.Reset()
		began := time.Now()
		err = f.watch(ctx, version)
		if forbidden(err) {
			f.set(func() bool {
				news := !f.polled
				f.polled = true
				return news
			})
			pause(ctx, poll)
			continue
		}
		if time.Since(began) < time.Second { // an API server that ends watches at once must not be hammered
			pause(ctx, away/4)
		}
	}
}

// set changes what is known, and tells when that is news.
func (f *follower) set(change func() (news bool)) {
	f.mu.Lock()
	news := change()
	f.mu.Unlock()
	if news {
		f.changed()
	}
}

// list reads the whole collection.
func (f *follower) list(ctx context.Context) (version string, err error) {
	objects := map[string]*unstructured.Unstructured{}
	options := f.options
	options.Limit = page
	for {
		l, err := f.api.List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range l.Items {
			f.put(objects, &l.Items[i])
		}
		version, options.Continue = l.GetResourceVersion(), l.GetContinue()
		if options.Continue == "" {
			break
		}
	}
	f.set(func() bool {
		same := f.synced && f.unread == "" && maps.EqualFunc(f.objects, objects, func(a, b *unstructured.Unstructured) bool {
			return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion() && a.GetResourceVersion() != ""
		})
		f.objects, f.synced, f.unread = objects, true, ""
		return !same
	})
	return version, nil
}

func (f *follower) put(objects map[string]*unstructured.Unstructured, u *unstructured.Unstructured) {
	key := u.GetNamespace() + "/" + u.GetName()
	if f.keep != nil {
		u = f.keep(u)
	}
	objects[key] = u
}

// watch follows the collection from a version on, for a while.
func (f *follower) watch(ctx context.Context, version string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, relist+hung, errors.New("the watch says nothing"))
	defer cancel()
	options := f.options
	options.ResourceVersion = version
	seconds := int64(relist / time.Second)
	options.TimeoutSeconds = &seconds
	w, err := f.api.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	f.set(func() bool {
		news := f.polled
		f.polled = false
		return news
	})
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
func (f *follower) event(e watch.Event) {
	u, ok := e.Object.(*unstructured.Unstructured)
	if !ok || e.Type == watch.Bookmark {
		return
	}
	f.set(func() bool {
		if e.Type == watch.Deleted {
			delete(f.objects, u.GetNamespace()+"/"+u.GetName())
		} else {
			f.put(f.objects, u)
		}
		return true
	})
}

// why says why the collection cannot be read.
func (f *follower) why(verb string, err error) string {
	if forbidden(err) {
		return fmt.Sprintf("may not %s %s", verb, f.resource)
	}
	return fmt.Sprintf("cannot %s %s: %s", verb, f.resource, strings.TrimSpace(err.Error()))
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
