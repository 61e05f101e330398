package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/kplan-dev/kplan/runner"
)

// Store is where the runs of a plan are recorded.
type Store struct {
	// Place is the cluster, nil if none keeps records.
	Place *Place
	// Folder is that of the plan, "" if no files are written.
	Folder Folder
}

// Past is what is known of a plan's runs before the next one.
type Past struct {
	// Record is that of the newest run; nil when there is none.
	Record *Record
	// Key makes the digests of the plan's steps.
	Key Key

	entries []Entry
}

// Past reads what is known of a plan on the clusters that on says. It gives what can
// be read also when something cannot; then that place is left out of s.
func (s *Store) Past(ctx context.Context, plan, on string) (Past, error) {
	var (
		past Past
		errs []error
	)
	if s.Place != nil {
		if err := s.Place.past(ctx, &past); err != nil {
			errs = append(errs, &UnrecordedError{Where: "the cluster", Err: err})
			s.Place = nil
		}
	}
	if s.Folder == "" {
		if past.Key == nil {
			past.Key = NewKey()
		}
		return past, errors.Join(errs...)
	}
	local, err := s.Folder.Latest(plan, on)
	if err != nil {
		errs = append(errs, &UnrecordedError{Where: "files", Err: err})
		s.Folder = ""
	}
	past.add(local)
	if err := s.share(&past); err != nil && s.Folder != "" {
		errs = append(errs, &UnrecordedError{Where: "files", Err: err})
		s.Folder = ""
	}
	return past, errors.Join(errs...)
}

// past reads what the cluster knows.
func (p Place) past(ctx context.Context, past *Past) error {
	var err error
	if past.entries, err = p.Records(ctx); err != nil || len(past.entries) == 0 {
		return err
	}
	past.Record, past.Key, err = p.Record(ctx, past.entries[0])
	return err
}

// add takes what files know, if that is more: they are written at once, the cluster
// a moment later.
func (p *Past) add(local *Record) {
	switch {
	case local == nil:
	case p.Record == nil:
		p.Record = local
	case newer(local.Summary, p.Record.Summary) < 0:
		p.Record = Fold(local.Events, p.Record)
	}
}

// share has the cluster and the files use one key, so that the digests of the one
// mean something to the other.
func (s *Store) share(past *Past) error {
	local := s.Folder.Key()
	if past.Key == nil {
		past.Key = local
	}
	if past.Key == nil {
		past.Key = NewKey()
	}
	if past.Key.equal(local) {
		return nil
	}
	return s.Folder.SetKey(past.Key)
}

// Recording is a run that is being recorded.
type Recording struct {
	// Observers take its events.
	Observers []runner.Observer

	journal *Journal
	keeper  *Keeper
}

// Begin begins to record a run after what is known from before. What it cannot
// record is in the error; the recording does the rest.
func (s *Store) Begin(ctx context.Context, run string, past Past) (*Recording, error) {
	r := &Recording{}
	var err error
	if s.Folder != "" {
		if r.journal, err = s.Folder.Begin(run); err != nil {
			err = &UnrecordedError{Where: "files", Err: err}
		} else {
			r.Observers = append(r.Observers, r.journal)
		}
	}
	if s.Place != nil {
		r.keeper = s.Place.Keep(ctx, past.Key, past.Record, past.entries)
		r.Observers = append(r.Observers, r.keeper)
	}
	return r, err
}

// Close ends the recording, and returns what is missing from it.
func (r *Recording) Close() error {
	var errs []error
	if r.journal != nil {
		if err := r.journal.Close(); err != nil {
			errs = append(errs, &UnrecordedError{Where: "its file", Err: err})
		}
	}
	if r.keeper != nil {
		if err := r.keeper.Close(); err != nil {
			errs = append(errs, &UnrecordedError{Where: "the cluster", Err: err})
		}
	}
	return errors.Join(errs...)
}

// UnrecordedError says that a run is not recorded in one of its places, or not in
// whole. The run itself suffers nothing of it.
type UnrecordedError struct {
	Where string
	Err   error
}

func (e *UnrecordedError) Error() string { return fmt.Sprintf("in %s: %v", e.Where, e.Err) }

func (e *UnrecordedError) Unwrap() error { return e.Err }
