package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry/remote"

	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/bundle"
)

// ociScheme is that of bundles in registries.
const ociScheme = "oci://"

// isBundle reports whether a plan argument names a bundle.
func isBundle(path string) bool { return bundle.IsFile(path) || strings.HasPrefix(path, ociScheme) }

// opened is a bundle whose plan was unpacked.
type opened struct {
	*bundle.Bundle
	name string // as it was asked for
	dir  string // where its files are; the app removes it
}

// open returns the file of the plan that an argument names. The plan of a bundle is
// unpacked into a folder that only the user can read, and which goes with the command; in
// takes the values of variables that the bundle was made with, over which others win.
func (a *app) open(path string, in *load.Options) (string, error) {
	if !isBundle(path) {
		return path, nil
	}
	ctx := context.Background() // nothing listens to signals yet: they end the process
	if a.bundle == nil || a.bundle.name != path {
		b, err := a.openBundle(ctx, path)
		if err != nil {
			return "", err
		}
		dir, err := os.MkdirTemp("", "kplan-bundle-")
		if err != nil {
			return "", err
		}
		a.close()
		a.bundle = &opened{b, path, dir}
		if err := b.Unpack(ctx, dir); err != nil {
			return "", fmt.Errorf("unpacking %s: %w", path, err)
		}
	}
	b := a.bundle
	var files []string
	for _, name := range b.VarFiles {
		files = append(files, filepath.Join(b.dir, filepath.FromSlash(name)))
	}
	in.VarFiles, in.Set = append(files, in.VarFiles...), slices.Concat(b.Set, in.Set)
	return filepath.Join(b.dir, filepath.FromSlash(b.Plan)), nil
}

// close removes what the command unpacked.
func (a *app) close() {
	if a.bundle != nil {
		_ = os.RemoveAll(a.bundle.dir)
		a.bundle = nil
	}
}

// openBundle opens a bundle, in a file or in a registry.
func (a *app) openBundle(ctx context.Context, name string) (*bundle.Bundle, error) {
	if !strings.HasPrefix(name, ociScheme) {
		b, err := bundle.OpenFile(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			err = &usageError{err: err, hint: "make a bundle by: " + a.name + " bundle PLAN -o " + name}
		}
		return b, err
	}
	r, reference, err := a.repository(name)
	if err != nil {
		return nil, err
	}
	root, err := r.Resolve(ctx, reference)
	if err != nil {
		return nil, runner.WithHint(fmt.Errorf("fetching the bundle %s: %w", name, err), "check the address and the tag; log in to a private registry with: helm registry login")
	}
	b, err := bundle.Open(ctx, r, root)
	if err != nil {
		return nil, fmt.Errorf("fetching the bundle %s: %w", name, err)
	}
	return b, nil
}

// repository connects to oci://HOST/REPO[:TAG][@DIGEST] and returns the tag or digest,
// which is latest when there is none. A digest wins: what it leads to is checked.
func (a *app) repository(address string) (*remote.Repository, string, error) {
	name, reference, err := bundle.ParseAddress(address)
	if err != nil {
		return nil, "", usagef("%s is no address of the form oci://HOST/REPOSITORY:TAG", address)
	}
	from := source.New(source.Options{UserAgent: userAgent()})
	r, err := from.Repository(name, a.fetching.plainHTTP || isLoopback(name))
	return r, reference, err
}

// isLoopback reports whether a repository is on this machine. Registries there are asked
// without TLS, as by other tools.
func isLoopback(repository string) bool {
	host, _, _ := strings.Cut(repository, "/")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
