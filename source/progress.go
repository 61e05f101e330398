package source

import (
	"context"
	"slices"
)

// Progress says how fetching one thing goes on.
type Progress struct {
	Reference Reference
	// Done and Total are bytes; Total is 0 when nobody knows.
	Done, Total int64
	// Ended says that it is there, or that Err is why it is not.
	Ended bool
	// Cached says that the cache has it, and that nothing but its digest was asked for.
	Cached bool
	// Note is something that people should know.
	Note string
	Err  error
}

// listener is one who wants to know how fetching goes on.
type listener struct{ hear func(Progress) }

type (
	hearKey struct{}
	tellKey struct{}
)

// WithProgress returns a context for calls of a Store that hear how fetching goes on
// while they wait. hear is called from several goroutines and returns at once.
func WithProgress(ctx context.Context, hear func(Progress)) context.Context {
	return context.WithValue(ctx, hearKey{}, &listener{hear})
}

// listen lets the context's listener hear of what is fetched, until end is called.
func (s *Store) listen(ctx context.Context, name string) (end func()) {
	l, ok := ctx.Value(hearKey{}).(*listener)
	if !ok {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[name] = append(s.told[name], l)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.told[name] = slices.DeleteFunc(s.told[name], func(x *listener) bool { return x == l }); len(s.told[name]) == 0 {
			delete(s.told, name)
		}
	}
}

// telling returns a context by which tell reaches all who wait for one thing. Notes are
// gathered: those who wait are told at the end, as those who come later.
func (s *Store) telling(ctx context.Context, name string, ref Reference, notes *[]string) context.Context {
	return context.WithValue(ctx, tellKey{}, func(p Progress) {
		p.Reference = ref
		if p.Note != "" {
			*notes = append(*notes, p.Note)
			if s.options.Report != nil {
				s.options.Report(p)
			}
			return
		}
		s.mu.Lock()
		all := slices.Clone(s.told[name])
		s.mu.Unlock()
		for _, l := range all {
			l.hear(p)
		}
		if s.options.Report != nil {
			s.options.Report(p)
		}
	})
}

// tell says how what is fetched in a context goes on.
func tell(ctx context.Context, p Progress) {
	if f, ok := ctx.Value(tellKey{}).(func(Progress)); ok {
		f(p)
	}
}
