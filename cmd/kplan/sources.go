package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/bundle"
	"github.com/kplan-dev/kplan/source/lock"
)

// fetching are the flags of commands that fetch what a plan refers to.
type fetching struct {
	locked    bool     // fetch nothing that is not locked
	plainHTTP bool     // ask the registry of a bundle without TLS
	mirrors   []string // values of --map

	mu sync.Mutex
	// missing are what was fetched and is not in the lock file that there is.
	missing []string
}

// addFetching registers the flags of commands that fetch.
func (a *app) addFetching(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.fetching.locked, "locked", false, "fail when something that the plan fetches is not in its lock file (see 'kplan lock')")
	a.addMap(cmd)
	a.addPlainHTTP(cmd)
}

// addMap registers the flag of commands that fetch, by which they do so elsewhere.
func (a *app) addMap(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.fetching.mirrors, "map", nil, "fetch what is below one address from below another, as `OLD=NEW`, such as ghcr.io=registry.internal/ghcr; may be\n"+
		"repeated. It is not for images: see 'kplan bundle push --images-to'")
}

// addPlainHTTP registers the flag of commands that open bundles.
func (a *app) addPlainHTTP(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.fetching.plainHTTP, "plain-http", false, "talk to the registry of a bundle without TLS; done anyway on this machine")
}

// sources gets charts and manifests from afar for a plan, the same ones for all that
// a command does, as the plan's lock file has them. It ends with the process.
func (a *app) sources(p *plan.Plan) (*source.Store, error) {
	if a.fetched != nil && a.fetchedFor == p {
		return a.fetched, nil
	}
	o, err := a.sourceOptions(p)
	if err != nil {
		return nil, err
	}
	f, err := a.readLock(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !a.fetching.locked:
	case errors.Is(err, fs.ErrNotExist):
		return nil, &usageError{err: fmt.Errorf("the plan has no lock file, which --locked asks for: %s", lock.Path(p.File)), hint: "write it by: " + a.name + " lock " + p.File}
	case err != nil:
		return nil, &usageError{err: err}
	default:
		o.Pins = &lock.Pins{File: f, Strict: a.fetching.locked, Missing: a.fetching.miss}
	}
	a.fetched, a.fetchedFor = source.New(o), p
	return a.fetched, nil
}

func (f *fetching) miss(ref source.Reference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missing = append(f.missing, ref.String())
}

// unlocked says what was fetched that the lock file does not have, once; "" for nothing.
func (f *fetching) unlocked() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := f.missing
	if f.missing = nil; len(names) == 0 || f.locked {
		return ""
	}
	slices.Sort(names)
	return "note: the lock file does not have " + words.List(names, 5) + "; bring it up to date with kplan lock"
}

// sourceOptions say how what a plan refers to is fetched: from the plan's bundle alone,
// from mirrors, or from where the plan says.
func (a *app) sourceOptions(p *plan.Plan) (source.Options, error) {
	o := source.Options{
		Repositories: p.Repositories, Dir: p.Dir, UserAgent: userAgent(),
		Keys: a.keys, Secrets: p.Sensitive, Stdin: a.stdin,
	}
	if tty.Is(a.stdin) { // nobody types manifests
		o.Stdin = nil
	}
	if a.bundle != nil {
		o.Contents = bundle.Sources{Bundle: a.bundle.Bundle, Key: (&lock.File{Mask: a.secrets().Text}).Key}
		return o, nil
	}
	var mappings []source.Mapping
	for _, text := range a.fetching.mirrors {
		m, err := source.ParseMapping(text)
		if err != nil {
			return o, usagef("--map: %w", err)
		}
		m.PlainHTTP = m.PlainHTTP || isLoopback(m.New)
		mappings = append(mappings, m)
	}
	if len(mappings) > 0 {
		o.Contents = source.NewMirrors(o, mappings...)
	}
	return o, nil
}

// readLock reads the lock file of a plan. It fails with fs.ErrNotExist when there is
// none.
func (a *app) readLock(p *plan.Plan) (*lock.File, error) {
	f, err := lock.Read(lock.Path(p.File), a.secrets().Text)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the lock file: %w", err)
	}
	return f, err
}

// lockedIn tells what the lock file of a plan has; nil when there is none that can be read.
func (a *app) lockedIn(p *plan.Plan) func(repo, name, version string) bool {
	f, err := a.readLock(p)
	if err != nil {
		return nil
	}
	return func(repo, name, version string) bool {
		return slices.ContainsFunc([]source.Kind{source.KindChart, source.KindArtifact, source.KindFile}, func(k source.Kind) bool {
			_, ok := f.Find(source.Reference{Kind: k, Repo: repo, Name: name, Version: version})
			return ok
		})
	}
}
