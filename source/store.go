// Package source gets what a plan names by address: charts of OCI registries and
// repositories, files of web servers and artifacts of registries. It has what was
// fetched checked against what a lock file says, and keeps it in a folder that
// runs share.
//
// It returns the texts of manifests and values too, wherever they are: decrypted,
// built from overlays, and with expressions evaluated. What they mean is for others.
//
// It reads no charts, asks no cluster, and starts no program but the
// credential helpers that Docker's configuration names.
package source

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/kplan-dev/kplan/internal/flight"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/redact"
	"github.com/kplan-dev/kplan/source/kustomize"
	"github.com/kplan-dev/kplan/source/sops"
)

// Options say how a Store gets things. The zero value is ready.
type Options struct {
	// Cache is the folder that is shared between runs (default CacheFolder).
	Cache string
	// Pins, when set, says which version and content things must have.
	Pins Pins
	// Contents, when set, is asked before any server.
	Contents Contents
	// Report, when set, is told how fetching goes on. It is called from several
	// goroutines and returns at once.
	Report func(Progress)
	// Repositories are those of the plan, and Dir is the folder that their files are
	// relative to.
	Repositories map[string]plan.Repository
	Dir          string
	// Keys, when set, open files that are encrypted with SOPS.
	Keys *sops.Keyring
	// Secrets, when set, gets what was encrypted in a file.
	Secrets *redact.Set
	// Stdin is standard input, where steps may read manifests; nil for none.
	Stdin io.Reader
	// UserAgent names the program to servers.
	UserAgent string
}

// Kind is what a reference leads to.
type Kind string

// The kinds of references.
const (
	// KindChart is a chart's archive, .tgz.
	KindChart Kind = "chart"
	// KindFile is one file.
	KindFile Kind = "file"
	// KindArtifact is an archive of files in a registry, as Flux pushes them.
	KindArtifact Kind = "artifact"
)

// Reference is what a plan asks for, in the plan's words.
type Reference struct {
	Kind Kind `json:"kind"`
	// Repo is the repository of a chart that is named by Name alone.
	Repo string `json:"repo,omitempty"`
	// Name is a chart's name in Repo, oci://HOST/PATH with or without tag and
	// digest, or an https address.
	Name string `json:"name"`
	// Version is a chart's version, or a constraint on it.
	Version string `json:"version,omitempty"`
}

// String returns the reference without passwords, for people.
func (r Reference) String() string {
	text := string(r.Kind) + " " + r.Name
	if r.Version != "" {
		text += " " + r.Version
	}
	if r.Repo != "" {
		text += " of " + r.Repo
	}
	return Public(text)
}

// Archive is what was fetched. Nobody changes it.
type Archive struct {
	// Name is a chart's name, or the reference's.
	Name string
	// Version is the version or tag that was found.
	Version string
	// Digest is that of Bytes: "sha256:" and 64 hexadecimal digits.
	Digest string
	// Manifest is the digest of the manifest in the registry; "" outside of one.
	Manifest string
	// Origin is the address that it came from, without passwords.
	Origin string
	// MediaType is that of the layer in the registry, or the server's content type.
	MediaType string
	// Annotations are those of the manifest in the registry.
	Annotations map[string]string
	// Note is what people should know of how it was come by; "" for nothing.
	Note  string
	Bytes []byte
}

// Store gets each thing once, and keeps it for whoever asks again. It is safe for
// concurrent use. Close it after the run.
type Store struct {
	options Options
	cache   cache
	logins  *logins

	// flight fetches what held does not have yet.
	flight flight.Group[*Archive]
	mu     sync.Mutex
	held   map[string]*Archive
	// found are what references led to: see Fetched.
	found map[Reference]*Archive
	// told are those who wait for something that is fetched.
	told map[string][]*listener

	indexes indexes

	// stdin is what came by standard input.
	stdin struct {
		once  sync.Once
		bytes []byte
		err   error
	}
	// overlays are those that were built.
	overlays struct {
		mu    sync.Mutex
		built map[string]kustomize.Built
	}
}

// New makes a store. Nothing is read yet.
func New(o Options) *Store {
	if o.Cache == "" {
		o.Cache = CacheFolder()
	}
	return &Store{
		options: o, cache: cache{o.Cache}, logins: newLogins(o),
		held: map[string]*Archive{}, found: map[Reference]*Archive{}, told: map[string][]*listener{},
	}
}

// Close gives connections back.
func (s *Store) Close() { s.logins.close() }

// once returns what is held under a key, or gets it: from a bundle, or by fetch.
// What cannot be had is tried anew by whoever asks next.
func (s *Store) once(ctx context.Context, key any, ref Reference, fetch func(context.Context, *Pin) (*Archive, error)) (*Archive, error) {
	name := fmt.Sprintf("%#v", key)
	end := s.listen(ctx, name)
	a, err := s.fetched(ctx, name, ref, func(ctx context.Context) (*Archive, error) { return s.get(ctx, key, ref, fetch) })
	end()
	if l, ok := ctx.Value(hearKey{}).(*listener); ok && err == nil && a.Note != "" {
		l.hear(Progress{Reference: ref, Note: a.Note}) // also when somebody else fetched it
	}
	return a, err
}

func (s *Store) fetched(ctx context.Context, name string, ref Reference, get func(context.Context) (*Archive, error)) (*Archive, error) {
	return s.flight.Do(ctx, name, func(ctx context.Context) (*Archive, error) {
		s.mu.Lock()
		a := s.held[name]
		s.mu.Unlock()
		if a != nil {
			return a, nil
		}
		var notes []string
		ctx = s.telling(ctx, name, ref, &notes)
		tell(ctx, Progress{})
		a, err := get(ctx)
		tell(ctx, Progress{Ended: true, Err: err})
		if err != nil {
			return nil, err
		}
		if len(notes) > 0 {
			a.Note = strings.Join(notes, "; ")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held[name], s.found[ref] = a, a
		return a, nil
	})
}

func (s *Store) get(ctx context.Context, key any, ref Reference, fetch func(context.Context, *Pin) (*Archive, error)) (a *Archive, err error) {
	var pin *Pin
	if s.options.Pins != nil {
		if pin, err = s.options.Pins.Pin(ref); err != nil {
			return nil, err
		}
	}
	if contents := s.options.Contents; contents != nil {
		// A mirror is a server as others are: what comes from it is verified.
		if m, ok := contents.(*Mirrors); ok {
			if c, ok := key.(Chart); ok {
				contents = m.verifying(c)
			}
		}
		if a, err = contents.Content(ctx, ref, pin); err != nil {
			return nil, err
		}
	}
	if a == nil {
		if a, err = fetch(ctx, pin); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
	}
	return a, pin.check(ref, a)
}
