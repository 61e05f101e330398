package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/webhook/listwatch"
)

const (
	// pollEvery is how often objects are read where they may not be watched.
	pollEvery = time.Second
	// watchFor bounds one watch of CustomResourceDefinitions.
	watchFor = 30 * time.Second
)

// update is what a follower learned: the objects of a look, one object of a
// watch, or why it cannot read them. A fatal one ends the wait.
type update struct {
	listing listing
	list    []*unstructured.Unstructured
	names   []string // the look was at these only; nil: at all of the listing
	object  *unstructured.Unstructured
	deleted bool
	trouble string
	fatal   error
}

// covers reports whether the update is about all objects, or about this one too.
func (u update) covers(name string) bool { return u.names == nil || slices.Contains(u.names, name) }

// follower reads the objects of one listing, or some of them, until its context ends.
type follower struct {
	session  *cluster.Session
	listing  listing
	names    []string // nil for a selector
	part     bool     // names are not all of the listing
	out      chan<- update
	notice   func(string)
	deletion bool
	bound    time.Duration // of one watch; 0 is the default

	get     bool // objects are read one by one: listing is forbidden
	polled  bool // it was said that they are not watched
	refused int  // how often the credentials were refused in a row
}

// send hands u over, unless ctx ends first.
func (f *follower) send(ctx context.Context, u update) {
	u.listing = f.listing
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
	c := listwatch.Collection[*unstructured.Unstructured]{
		Client: f.client, Options: f.options(), Relist: f.bound, Poll: pollEvery,
		Read: func(o *unstructured.Unstructured) (*unstructured.Unstructured, bool) { return o, f.wants(o) },
		Listed: func(all []*unstructured.Unstructured) {
			f.refused = 0
			f.send(ctx, update{list: all})
		},
		Changed: func(o *unstructured.Unstructured, deleted bool) { f.send(ctx, update{object: o, deleted: deleted}) },
		Watched: func(can bool) {
			if !can {
				f.sayPolled()
			}
		},
		Retry: func(err error) (time.Duration, bool) { return 0, f.retry(ctx, err) },
	}
	for {
		err := c.Follow(ctx)
		switch {
		case err == nil, f.listing.beside: // what may not be read tells nothing
		case f.deletion && meta.IsNoMatchError(err):
			f.say("no kind " + f.what() + " is served: there is nothing to be deleted")
			f.send(ctx, update{})
		case !f.get && apierrors.IsForbidden(err) && len(f.names) > 1: // perhaps one by one they may be listed
			f.runEach(ctx)
		case !f.get && listwatch.Refused(err) && !apierrors.IsUnauthorized(err) && f.names != nil:
			f.get = true
			f.sayPolled()
			continue
		default:
			f.send(ctx, update{fatal: kubeerr.Explain(fmt.Errorf("reading %s: %w", f.what(), err), kubeerr.Op{Namespace: f.listing.namespace})})
		}
		return
	}
}

// retry reports whether to list again after err, and tells of it. Credentials get one
// more chance, since a plugin may have been asked for new ones meanwhile.
func (f *follower) retry(ctx context.Context, err error) bool {
	switch {
	case apierrors.IsNotFound(err):
		f.session.Cluster.Refresh() // the kind is not served any more, or not yet
	case apierrors.IsUnauthorized(err):
		if f.refused++; f.refused > 1 {
			return false
		}
	case listwatch.Refused(err), runner.IsPermanent(err), apierrors.IsBadRequest(err), apierrors.IsInvalid(err),
		f.deletion && meta.IsNoMatchError(err):
		return false
	}
	if !f.listing.beside {
		f.send(ctx, update{trouble: troubleText(err, f.what())})
	}
	return true
}

// look reads the objects once.
func (f *follower) look(ctx context.Context) (update, error) {
	f.get = f.names != nil && len(f.names) <= 10 // in the time that is left
	u := update{listing: f.listing, names: f.names}
	client, err := f.client(ctx)
	if meta.IsNoMatchError(err) && f.deletion {
		return update{listing: f.listing}, nil
	}
	if err != nil {
		return update{}, err
	}
	list, err := client.List(ctx, f.options())
	if err != nil {
		return update{}, err
	}
	for i := range list.Items {
		if f.wants(&list.Items[i]) {
			u.list = append(u.list, &list.Items[i])
		}
	}
	return u, nil
}

// client returns what reads the objects.
func (f *follower) client(ctx context.Context) (dynamic.ResourceInterface, error) {
	m, err := f.listing.mapping(ctx, f.session)
	if err != nil {
		return nil, err
	}
	client := f.session.Resource(m, f.listing.namespace)
	if f.get {
		return getter{client, f.names}, nil
	}
	return client, nil
}

// getter lists objects by getting each, for roles that allow no more.
type getter struct {
	dynamic.ResourceInterface
	names []string
}

// List implements dynamic.ResourceInterface.
func (g getter) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	for _, name := range g.names {
		o, err := g.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		default:
			list.Items = append(list.Items, *o)
		}
	}
	return list, nil
}

// Watch implements dynamic.ResourceInterface: one object after the other cannot be watched.
func (g getter) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, apierrors.NewMethodNotSupported(schema.GroupResource{}, "watch")
}

func (f *follower) options() metav1.ListOptions {
	o := metav1.ListOptions{LabelSelector: f.listing.selector, FieldSelector: f.listing.fields}
	if len(f.names) == 1 {
		// Roles that name their resources allow this list, and no other.
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", f.names[0]).String()
	}
	return o
}

// wants leaves out the neighbours that a list of more than one name brings along.
func (f *follower) wants(o *unstructured.Unstructured) bool {
	return f.names == nil || slices.Contains(f.names, o.GetName())
}

// apart reports whether objects are followed one by one from the start: a list of
// all CustomResourceDefinitions is tens of megabytes where there are hundreds.
func (f *follower) apart() bool {
	return f.listing.kind.Group == kinds.Definitions.Group && 1 < len(f.names) && len(f.names) <= 100
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

// sayPolled says once that the objects are not watched.
func (f *follower) sayPolled() {
	if !f.polled && !f.listing.beside {
		f.polled = true
		f.say(fmt.Sprintf("%s may not be watched; looking every %s instead", f.what(), pollEvery))
	}
}

func (f *follower) what() string { return cmp.Or(f.listing.arg, f.listing.kind.GroupKind().String()) }

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
