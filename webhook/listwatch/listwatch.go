// Package listwatch follows the objects of one resource: it lists them, watches
// their changes, and lists them anew from time to time.
//
// The reflectors of client-go do not serve for that: where watching is forbidden, and
// after every list that follows a watch, they pause for up to half a minute, and they
// trust a watch that hands on nothing more.
//
// The package keeps no objects. What is read goes to the functions of a [Collection].
package listwatch

import (
	"cmp"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	// relist is how long objects are watched until they are listed anew: some proxies
	// stop handing on events and do not end the request either (zarf-dev/zarf#4716).
	relist = 30 * time.Second
	// relistLong is the same for more than longList objects, whose list costs much.
	relistLong, longList = 5 * time.Minute, 500
	// minWatch is the time from one watch that ends at once to the next list.
	minWatch = 500 * time.Millisecond
)

// Collection is what to follow, and whom to tell. Its functions are called from the
// goroutine of Follow, one at a time.
type Collection[T any] struct {
	// Client returns what reads the objects. It is called before each list, since
	// their kind may come to be served, or go. An error counts as one of the list.
	Client func(context.Context) (dynamic.ResourceInterface, error)
	// Options select the objects. With a Limit they are listed in pages of so many.
	Options metav1.ListOptions
	// Relist is how long the objects are watched until they are listed anew. When 0 it
	// is half a minute, or five for a long list.
	Relist time.Duration
	// Poll is the time between lists where watching is refused.
	Poll time.Duration
	// Read makes a T of an object; false leaves the object out.
	Read func(*unstructured.Unstructured) (T, bool)
	// Listed takes all objects, after each list.
	Listed func([]T)
	// Changed takes an object that came, changed or went after that.
	Changed func(object T, deleted bool)
	// Watched takes whether the objects can be watched, after each try.
	Watched func(bool)
	// Retry takes why the objects cannot be listed, and reports whether to try again
	// and after how long. 0 is for an API server that is away: soon, then less often.
	Retry func(error) (after time.Duration, again bool)
}

// Follow lists and watches until ctx ends, which returns nil, or until Retry gives up
// on an error, which it returns.
func (c *Collection[T]) Follow(ctx context.Context) error {
	delays := backoff()
	for ctx.Err() == nil {
		from, err := c.list(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			after, again := c.Retry(err)
			if !again {
				return err
			}
			if after == 0 {
				after = delays.Step()
			}
			pause(ctx, after)
			continue
		}
		delays = backoff()
		began := time.Now()
		switch err = c.watch(ctx, from); {
		case Refused(err):
			c.Watched(false)
			pause(ctx, c.Poll)
		case time.Since(began) < minWatch:
			pause(ctx, minWatch)
		}
	}
	return nil
}

// backoff returns the times between lists while the API server is away.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 16, Cap: 2 * time.Second}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// start is where a watch goes on from.
type start struct {
	client  dynamic.ResourceInterface
	version string
	listed  int
}

// list reads all objects.
func (c *Collection[T]) list(ctx context.Context) (start, error) {
	client, err := c.Client(ctx)
	if err != nil {
		return start{}, err
	}
	var all []T
	for options := c.Options; ; {
		page, err := client.List(ctx, options)
		if err != nil {
			return start{}, err
		}
		for i := range page.Items {
			if object, ok := c.Read(&page.Items[i]); ok {
				all = append(all, object)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			c.Listed(all)
			return start{client, page.GetResourceVersion(), len(all)}, nil
		}
	}
}

// watch follows changes until the objects are to be listed anew, or the watch ends.
func (c *Collection[T]) watch(ctx context.Context, from start) error {
	bound := cmp.Or(c.Relist, relist)
	if c.Relist == 0 && from.listed > longList {
		bound = relistLong
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("it is time to list again"))
	defer cancel()
	options := c.Options
	options.Limit, options.ResourceVersion, options.AllowWatchBookmarks = 0, from.version, true
	options.TimeoutSeconds = new(int64(bound / time.Second)) // which not every proxy keeps to
	w, err := from.client.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	c.Watched(true)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if e.Type == watch.Error {
				return apierrors.FromObject(e.Object)
			}
			if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Bookmark {
				if object, ok := c.Read(o); ok {
					c.Changed(object, e.Type == watch.Deleted)
				}
			}
		}
	}
}

// Refused reports whether an error says that the user may not do what was tried, or
// that nobody can.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
}
