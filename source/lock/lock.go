// Package lock reads and writes lock files: what a plan's references to charts and
// manifests elsewhere led to when they were locked, by version and digest.
//
// It fetches nothing, and does not know what a plan refers to: package source asks
// it, and steps/analyze walks a plan.
package lock

import (
	"cmp"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/kplan-dev/kplan/source"
)

// Kind is what a lock file says that it is.
const Kind = "Lock"

// Path returns the lock file of a plan file: plan.lock.yaml for plan.yaml.
func Path(planFile string) string {
	return strings.TrimSuffix(planFile, filepath.Ext(planFile)) + ".lock.yaml"
}

// Entry is what one reference led to.
type Entry struct {
	// Reference is what the plan asks for, in the plan's words but for logins.
	source.Reference
	// Locked is the version of a chart or the tag of an artifact that was found; "" for
	// a file.
	Locked string
	// Digest is that of the content, and Manifest that of the manifest in a registry, ""
	// elsewhere. Both are "sha256:" and 64 hexadecimal digits.
	Digest, Manifest string
}

// Of returns the entry of what was fetched.
func Of(f source.Fetched) Entry {
	e := Entry{Reference: f.Reference, Digest: f.Digest, Manifest: f.Manifest}
	if f.Kind != source.KindFile {
		e.Locked = f.Archive.Version
	}
	return e
}

// File is the content of a lock file. The zero value is an empty one.
type File struct {
	// Mask, when set, takes out of references what must not be written.
	Mask func(string) string

	entries map[source.Reference]Entry
}

// Find returns the entry of a reference.
func (f *File) Find(ref source.Reference) (Entry, bool) {
	e, ok := f.entries[f.Key(ref)]
	return e, ok
}

// Put adds an entry, in the place of one for the same reference.
func (f *File) Put(e Entry) {
	if f.entries == nil {
		f.entries = map[source.Reference]Entry{}
	}
	e.Reference = f.Key(e.Reference)
	f.entries[e.Reference] = e
}

// Entries returns the entries in a stable order.
func (f *File) Entries() []Entry {
	all := make([]Entry, 0, len(f.entries))
	for _, e := range f.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return a.Compare(b.Reference) })
	return all
}

// Key returns a reference as a lock file has it: without logins, and without what is masked.
func (f *File) Key(ref source.Reference) source.Reference {
	ref.Name, ref.Repo = f.public(ref.Name), f.public(ref.Repo)
	return ref
}

func (f *File) public(address string) string {
	if u, err := url.Parse(address); err == nil && u.User != nil {
		u.User = nil
		address = u.String()
	}
	if f.Mask != nil {
		address = f.Mask(address)
	}
	return address
}

// Stale reports whether the entry does not meet its own reference: somebody edited it.
func (e Entry) Stale() bool { return e.Kind == source.KindChart && !meets(e.Locked, e.Version) }

// meets reports whether a version is what a constraint allows.
func meets(version, constraint string) bool {
	if constraint == "" || version == constraint {
		return true
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	c, err := semver.NewConstraint(constraint)
	return err == nil && c.Check(v)
}

// kept returns the entry that a reference keeps when a lock file is brought up to date: its
// own, else the newest of the same chart which it allows: a constraint that was
// changed changes no version that it still allows.
func (f *File) kept(ref source.Reference) (Entry, bool) {
	if own, ok := f.Find(ref); ok && !own.Stale() {
		return own, true
	}
	if ref.Kind != source.KindChart {
		return Entry{}, false
	}
	ref = f.Key(ref)
	var found []Entry
	for _, e := range f.entries {
		if e.Kind == ref.Kind && e.Repo == ref.Repo && e.Name == ref.Name && meets(e.Locked, ref.Version) {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return Entry{}, false
	}
	return slices.MaxFunc(found, func(a, b Entry) int { return compareVersions(a.Locked, b.Locked) }), true
}

// compareVersions orders versions; texts that are none come first.
func compareVersions(a, b string) int {
	v, err := semver.NewVersion(a)
	w, err2 := semver.NewVersion(b)
	switch {
	case err != nil && err2 != nil:
		return cmp.Compare(a, b)
	case err != nil:
		return -1
	case err2 != nil:
		return 1
	}
	return v.Compare(w)
}
