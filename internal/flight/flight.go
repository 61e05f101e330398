// Package flight lets those who want the same at the same time share one call, each
// as long as its own context lasts.
//
// It keeps no results: whoever asks after the call has ended makes another one.
package flight

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
)

// Group is a set of calls that are shared by their keys. The zero value is ready.
type Group[T any] struct{ calls singleflight.Group }

// result is what a call came to.
type result[T any] struct {
	value T
	err   error
	// ended says that the context of whoever made the call was over, which says
	// nothing to the others.
	ended bool
}

// Do calls f, or waits for the call that is under way for the same key. When that
// fails because the one who made it wants it no longer, another one makes it anew.
// Whoever makes a call returns when it has ended.
func (g *Group[T]) Do(ctx context.Context, key string, f func(context.Context) (T, error)) (T, error) {
	for {
		var mine atomic.Bool
		call := g.calls.DoChan(key, func() (any, error) { // its goroutine ends with f
			mine.Store(true)
			if ctx.Err() != nil {
				return result[T]{err: context.Cause(ctx), ended: true}, nil
			}
			value, err := f(ctx)
			return result[T]{value, err, err != nil && ctx.Err() != nil}, nil
		})
		var c singleflight.Result
		select {
		case c = <-call:
		case <-ctx.Done():
			if !mine.Load() {
				return *new(T), context.Cause(ctx)
			}
			c = <-call
		}
		if r := c.Val.(result[T]); !r.ended || ctx.Err() != nil {
			return r.value, r.err
		}
	}
}
