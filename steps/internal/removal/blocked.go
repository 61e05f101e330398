package removal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/survey"
)

const (
	// look is how often it is looked for what is in the way.
	look = time.Second
	// hesitation is how long something has to be in the way before that is said:
	// a controller may be about to do its work, an operator about to start.
	hesitation = 5 * time.Second
	// benefit is how long a finalizer is waited for whose controller is not found in
	// the cluster: it may run elsewhere.
	benefit = 60 * time.Second
)

// BlockedError says that an object cannot be deleted until somebody acts.
type BlockedError struct {
	// Object is what does not go, and Reason what is in its way.
	Object, Reason string
	// Remedy is what to do.
	Remedy string
}

func (e *BlockedError) Error() string {
	return e.Object + " cannot be deleted: " + e.Reason
}

// Hint implements the interface that runner.HintOf looks for.
func (e *BlockedError) Hint() string { return e.Remedy }

// blocks finds out what keeps the objects of a phase from going, and takes it out of
// the way where that is wanted.
type blocks struct {
	*Remover
	objects map[string]Object // by ID
	// controllers are the workloads of the cluster, as they were read last. Only the
	// goroutine of start uses it, and explain after it has ended.
	controllers workloads

	mu sync.Mutex
	// seen are objects that are being deleted, as they were last, and since when.
	seen  map[string]*unstructured.Unstructured
	since map[string]time.Time
	// held are the faults of deletions that are held, by webhook, and since when.
	held map[string]heldFor
	// webhooks follows those that fail closed; nil before somebody asks.
	webhooks *survey.Subscription
	broken   map[string]broken // by Kind/name of the configuration
}

type heldFor struct {
	fault  webhook.Fault
	object string
	since  time.Time
}

func newBlocks(r *Remover, objects []Object) *blocks {
	b := &blocks{
		Remover: r, objects: map[string]Object{}, seen: map[string]*unstructured.Unstructured{}, since: map[string]time.Time{},
		held: map[string]heldFor{}, broken: map[string]broken{},
	}
	for _, o := range objects {
		b.objects[o.ID()] = o
	}
	return b
}

// notified returns a context whose held requests b knows of.
func (b *blocks) notified(ctx context.Context) context.Context {
	return hold.WithNotify(ctx, func(n hold.Notice) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch key := n.Fault.Key(); n.Event {
		case hold.Held:
			if _, known := b.held[key]; !known {
				b.held[key] = heldFor{n.Fault, n.Request.String(), time.Now()}
			}
		case hold.Released:
			delete(b.held, key)
		case hold.Denied, hold.StatusChanged:
		}
	})
}

// see notes how an object stands that is to go.
func (b *blocks) see(id string, u *unstructured.Unstructured) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u == nil || u.GetDeletionTimestamp() == nil {
		delete(b.seen, id)
		delete(b.since, id)
		return
	}
	b.seen[id] = u
	if _, known := b.since[id]; !known {
		b.since[id] = time.Now()
	}
}

// start looks for what is in the way until ctx ends, which stop ends with a
// BlockedError when nothing will change by itself. The function that it returns
// waits for the end.
func (b *blocks) start(ctx context.Context, stop context.CancelCauseFunc) (wait func()) {
	var done sync.WaitGroup
	done.Go(func() {
		ticks := time.NewTicker(look)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			err := b.heldInVain(ctx)
			if err == nil {
				err = b.stuck(ctx)
			}
			if err != nil && ctx.Err() == nil {
				stop(err)
				return
			}
		}
	})
	return func() {
		done.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.webhooks != nil {
			b.webhooks.Close()
			b.webhooks = nil
		}
	}
}

// heldInVain looks whether a webhook that deletions are held for has nobody left to
// serve it.
func (b *blocks) heldInVain(ctx context.Context) error {
	b.mu.Lock()
	held := slices.Collect(maps.Values(b.held))
	b.mu.Unlock()
	for _, h := range held {
		if time.Since(h.since) < hesitation {
			continue
		}
		for _, st := range b.closed() {
			why, dead := unserved(st)
			if !dead || !st.Matches(h.fault) {
				continue
			}
			if err := b.blockedBy(ctx, h.object, st, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// stuck looks at the objects that have been on their way for a while.
func (b *blocks) stuck(ctx context.Context) error {
	b.controllers = nil
	b.mu.Lock()
	var late []*unstructured.Unstructured
	for _, id := range slices.Sorted(maps.Keys(b.seen)) {
		if time.Since(b.since[id]) >= hesitation {
			late = append(late, b.seen[id])
		}
	}
	b.mu.Unlock()
	const most = 20 // those that follow are looked at when these are gone
	for _, u := range late[:min(most, len(late))] {
		for _, o := range b.withinOf(ctx, u) {
			if err := b.examine(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// examine looks at what keeps one object.
func (b *blocks) examine(ctx context.Context, o Object) error {
	waits := served(o.GetFinalizers())
	if len(waits) == 0 {
		return nil
	}
	if gone, why := b.hopeless(ctx, o, waits); len(gone) > 0 {
		if !b.ForceFinalizers {
			return &BlockedError{Object: o.ID(), Reason: why, Remedy: forceHint(o, gone)}
		}
		return b.force(ctx, o, gone, why)
	}
	for _, st := range b.closed() {
		if why, dead := unserved(st); dead && b.asks(ctx, st, o) {
			if err := b.blockedBy(ctx, o.ID(), st, "nobody can take its finalizers away: "+why); err != nil {
				return err
			}
		}
	}
	return nil
}

// explain adds to the end of a step's time what is known of the objects left.
func (b *blocks) explain(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, context.DeadlineExceeded)
	defer cancel()
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(b.seen)) {
		o := b.objects[id]
		o.Unstructured = b.seen[id]
		for _, f := range served(o.GetFinalizers()) {
			texts = append(texts, fmt.Sprintf("%s: finalizer %s is taken away by %s", id, f, b.holder(ctx, o, f)))
		}
	}
	const most = 3
	if len(texts) == 0 {
		return err
	}
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most], fmt.Sprintf("and %d more", more))
	}
	hint := runner.HintOf(err)
	return runner.WithHint(kubeerr.Reword(err.Error()+"; "+strings.Join(texts, "; "), err), hint)
}
