package source

import (
	"context"
	"fmt"

	"github.com/kplan-dev/kplan/runner"
)

// Pins says which version and content a reference must have. A lock file is one.
type Pins interface {
	// Pin returns what a reference must be, nil when it may be anything, and an error
	// when it must not be fetched, such as one that a lock file does not have.
	Pin(Reference) (*Pin, error)
}

// Contents has what otherwise is fetched. A bundle is one.
type Contents interface {
	// Content returns what a reference leads to; nil has it fetched. pin is what it
	// must be, nil when it may be anything.
	Content(ctx context.Context, ref Reference, pin *Pin) (*Archive, error)
}

// Pin is what a reference must be. What is "" may be anything.
type Pin struct {
	// Version is fetched instead of the one that the reference asks for.
	Version string
	// Digest is the content's, as in Archive.
	Digest string
	// Manifest is the digest of the manifest in a registry. It is not looked at when
	// Digest is set: the same content may be pushed again.
	Manifest string
}

// version returns the version to fetch.
func (p *Pin) version(asked string) string {
	if p == nil || p.Version == "" {
		return asked
	}
	return p.Version
}

// check fails with a *MismatchError when what was found is something else.
func (p *Pin) check(ref Reference, a *Archive) error {
	switch {
	case p == nil:
		return nil
	case p.Digest != "" && p.Digest != a.Digest:
		return mismatch(&MismatchError{Reference: ref, Version: a.Version, Want: p.Digest, Got: a.Digest})
	case p.Digest == "" && p.Manifest != "" && p.Manifest != a.Manifest:
		return mismatch(&MismatchError{Reference: ref, Version: a.Version, Want: p.Manifest, Got: a.Manifest})
	}
	return nil
}

func mismatch(err *MismatchError) error {
	return runner.WithHint(runner.Permanent(err), "somebody published other content under the same version; if that is right: kplan lock PLAN --update=STEP")
}

// MismatchError says that a reference leads to something else than it must.
type MismatchError struct {
	Reference Reference
	// Version is the one that was found.
	Version string
	// Want and Got are digests.
	Want, Got string
}

// Error implements error.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("the content is not what is locked: it is %s, locked is %s", e.Got, e.Want)
}
