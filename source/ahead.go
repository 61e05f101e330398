package source

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/plan"
)

// atOnce is how many things are fetched side by side ahead of time.
const atOnce = 8

// Ahead is what became of one thing that was fetched ahead of time.
type Ahead struct {
	Reference Reference
	// Archive is nil when it could not be had.
	Archive *Archive
	// Kept says that an earlier run had fetched the content.
	Kept bool
	Err  error
	// Done counts those that have ended, of Total.
	Done, Total int
}

// Ahead fetches side by side the charts, files and artifacts that steps are going to ask
// for, each once, and returns when all have ended, well or not. Steps that are not run,
// and those of which it is not known yet what they ask for, are passed over. ended is told
// of each, one after another; it may be nil.
func (s *Store) Ahead(ctx context.Context, steps []plan.Step, ended func(Ahead)) {
	wanted := asked(steps)
	var (
		group errgroup.Group
		mu    sync.Mutex
		done  int
	)
	group.SetLimit(atOnce)
	for _, w := range wanted {
		group.Go(func() error { // ends with ctx
			var kept atomic.Bool
			a := Ahead{Reference: w.Reference(), Total: len(wanted)}
			a.Archive, a.Err = s.fetch(WithProgress(ctx, func(p Progress) {
				if p.Cached {
					kept.Store(true)
				}
			}), w)
			a.Kept = kept.Load()
			mu.Lock()
			defer mu.Unlock()
			done++
			if a.Done = done; ended != nil {
				ended(a)
			}
			return nil
		})
	}
	_ = group.Wait() // each has its own error
}

// request is a Chart, a File or an Artifact.
type request interface{ Reference() Reference }

// asked are the things that steps are going to ask for, each once.
func asked(steps []plan.Step) []request {
	var all []request
	seen := map[request]bool{}
	add := func(r request) {
		if !seen[r] {
			seen[r] = true
			all = append(all, r)
		}
	}
	for _, step := range steps {
		if step.Skip != "" || len(step.Deferred()) > 0 {
			continue
		}
		if step.Helm != nil && !step.Helm.IsLocal() {
			add(ChartOf(step))
		}
		for _, name := range inputs(step) {
			a, err := plan.ParseAddress(name)
			switch {
			case err != nil || !plan.IsAddress(name):
			case strings.HasPrefix(a.URL, scheme):
				add(Artifact{Name: a.URL, PlainHTTP: step.Apply != nil && step.Apply.PlainHTTP})
			default:
				add(File{URL: a.URL})
			}
		}
	}
	return all
}

// fetch gets what a request asks for.
func (s *Store) fetch(ctx context.Context, r request) (*Archive, error) {
	switch r := r.(type) {
	case Chart:
		return s.Chart(ctx, r)
	case Artifact:
		return s.Artifact(ctx, r)
	case File:
		return s.File(ctx, r)
	}
	return nil, fmt.Errorf("nobody fetches a %T", r)
}
