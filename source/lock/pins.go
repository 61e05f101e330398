package lock

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
)

// Pins has a run fetch what is locked, and nothing else under the same name.
type Pins struct {
	File *File
	// Strict refuses what is not locked.
	Strict bool
	// Missing, when set, is told of each reference that is not locked, once. It may be
	// called by several goroutines at once.
	Missing func(source.Reference)

	told sync.Map
}

var _ source.Pins = (*Pins)(nil)

// UnlockedError says that a lock file does not have a reference.
type UnlockedError struct{ Reference source.Reference }

// Error implements error.
func (e *UnlockedError) Error() string { return e.Reference.String() + " is not locked" }

// Pin implements source.Pins. It fails with an *UnlockedError.
func (p *Pins) Pin(ref source.Reference) (*source.Pin, error) {
	e, ok := p.File.Find(ref)
	switch {
	case ok && e.Stale():
		return nil, runner.WithHint(runner.Permanent(fmt.Errorf("the lock file has version %s, which %q does not allow", e.Locked, e.Version)),
			"bring the lock file up to date with: kplan lock PLAN")
	case ok:
		return e.pin(), nil
	}
	if _, again := p.told.LoadOrStore(p.File.Key(ref), true); !again && p.Missing != nil {
		p.Missing(ref)
	}
	if !p.Strict {
		return nil, nil
	}
	return nil, runner.WithHint(runner.Permanent(&UnlockedError{ref}), "lock it with: kplan lock PLAN")
}

// pin is what the entry's reference must lead to.
func (e Entry) pin() *source.Pin {
	return &source.Pin{Version: e.Locked, Digest: e.Digest, Manifest: e.Manifest}
}

// Keeping has a lock file brought up to date: versions that are locked and still
// allowed stay, all else is resolved anew.
type Keeping struct {
	File *File
	// Fresh are what was resolved anew before. They go first.
	Fresh *File
}

var _ source.Pins = Keeping{}

// Pin implements source.Pins. It never fails.
func (k Keeping) Pin(ref source.Reference) (*source.Pin, error) {
	if k.Fresh != nil {
		if e, ok := k.Fresh.Find(ref); ok {
			return e.pin(), nil
		}
	}
	if e, ok := k.File.kept(ref); ok {
		return e.pin(), nil
	}
	return nil, nil
}

// IsMismatch reports whether an error says that something is not what is locked.
func IsMismatch(err error) bool { return errors.As(err, new(*source.MismatchError)) }
