// Package build compiles the lab's large programs (Kubernetes, CoreDNS) from
// Go modules into a cache folder, once for each state of their sources.
//
// It needs a Go toolchain and the lab's source tree only when the cache is
// cold or its key has to be computed; it never changes the source tree.
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/lab/internal/compile"
	"github.com/kplan-dev/kplan/lab/internal/flock"
)

// Version of Kubernetes that the lab runs; go.mod says the same.
const Version = "v1.36.3"

// Program is one thing to build.
type Program struct {
	Name    string   // file name of the result
	Package string   // e.g. ./cmd/kube
	Sources []string // folders and files that decide the result, relative to the lab's
	Flags   string   // -ldflags
	Tags    string   // -tags
	// Work is the CPU time that it takes the first time.
	Work time.Duration
}

// Kube is the multi-call binary of all Kubernetes components.
var Kube = Program{
	Name: "kube", Package: "./cmd/kube",
	Sources: []string{"go.mod", "go.sum", "cmd/kube"},
	Flags:   versionFlags(), Tags: "kube", Work: 10 * time.Minute,
}

// CoreDNS is the cluster's DNS server.
var CoreDNS = Program{
	Name: "coredns", Package: "./cmd/coredns",
	Sources: []string{"go.mod", "go.sum", "cmd/coredns"}, Flags: "-s -w", Work: time.Minute,
}

// Pause is the process of a pod's sandbox.
var Pause = Program{
	Name: "pause", Package: "./cmd/pause",
	Sources: []string{"cmd/pause"}, Flags: "-s -w",
}

// Programs are all that a lab with a node is made of.
var Programs = []Program{Kube, Pause, CoreDNS}

// versionFlags stamp the version: charts' kubeVersion checks read it.
func versionFlags() string {
	flags := []string{"-s", "-w"}
	parts := strings.SplitN(strings.TrimPrefix(Version, "v"), ".", 3)
	for _, variable := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+variable+".gitVersion="+Version,
			"-X "+variable+".gitMajor="+parts[0],
			"-X "+variable+".gitMinor="+parts[1],
			"-X "+variable+".gitTreeState=clean")
	}
	return strings.Join(flags, " ")
}

// Error says that a program could not be built.
type Error = compile.Error

// Builder builds programs of one source tree into one cache.
type Builder struct {
	Source   string // the lab's folder, with its go.mod
	Cache    string
	Progress io.Writer // takes lines for people
}

// New returns a builder of the lab's source tree into the user's cache, or into
// $KPLAN_LAB_CACHE. Its progress takes lines for people.
func New(progress io.Writer) (*Builder, error) {
	source, err := Source()
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir()
	return &Builder{Source: source, Cache: cache, Progress: progress}, err
}

func cacheDir() (string, error) {
	if dir := os.Getenv("KPLAN_LAB_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder (set KPLAN_LAB_CACHE): %w", err)
	}
	return filepath.Join(base, "kplan-lab"), nil
}

// Path returns the program's file in the cache, building it if it is not there.
func (b *Builder) Path(ctx context.Context, p Program) (string, error) {
	path, built, err := b.find(p)
	if built || err != nil {
		return path, err
	}
	unlock, err := flock.Lock(ctx, filepath.Join(b.Cache, p.Name+".lock"), func() {
		fmt.Fprintf(b.Progress, "another kplan-lab builds %s; waiting for it…\n", p.Name)
	})
	if err != nil {
		return "", &Error{Program: p.Name, Err: err}
	}
	defer unlock()
	if path, built, err = b.find(p); built || err != nil {
		return path, err // somebody else built it meanwhile
	}
	if err := b.compile(ctx, p, path); err != nil {
		return "", err
	}
	b.prune(p, path)
	return path, nil
}

// Built reports whether the program is in the cache.
func (b *Builder) Built(p Program) (bool, error) {
	_, built, err := b.find(p)
	return built, err
}

// find returns the program's place in the cache, and whether it is there.
func (b *Builder) find(p Program) (path string, built bool, err error) {
	key, err := b.key(p)
	if err != nil {
		return "", false, &Error{Program: p.Name, Err: err}
	}
	path = filepath.Join(b.Cache, p.Name+"-"+key, p.Name)
	_, err = os.Stat(path)
	return path, err == nil, nil
}

// key names all that decides the result.
func (b *Builder) key(p Program) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.GOOS, runtime.GOARCH, p.Package, p.Flags, p.Tags)
	for _, source := range p.Sources {
		err := filepath.WalkDir(filepath.Join(b.Source, source), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(b.Source, path)
			fmt.Fprintf(sum, "%s %d\n%s\n", filepath.ToSlash(name), len(data), data)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// compile runs go build, with a line of progress now and then. It compiles as
// everything else in this module does (no -trimpath, no cgo), so that Go's cache
// serves the linter, the tests and these programs alike.
func (b *Builder) compile(ctx context.Context, p Program, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return &Error{Program: p.Name, Err: err}
	}
	made := path + ".new"
	err := compile.Program{
		Name: p.Name, Dir: b.Source, Package: p.Package, Output: made, Work: p.Work,
		Flags: []string{"-buildvcs=false", "-ldflags", p.Flags, "-tags", p.Tags},
		Env:   []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="},
	}.Run(ctx, func(line string) { fmt.Fprintln(b.Progress, line) })
	if err != nil {
		_ = os.Remove(made)
		return err
	}
	return os.Rename(made, path)
}

// prune removes builds of the same program that nobody has made or asked for
// in a week. A lab that runs one keeps it: a running file stays on disk.
func (b *Builder) prune(p Program, keep string) {
	others, _ := filepath.Glob(filepath.Join(b.Cache, p.Name+"-*"))
	for _, other := range others {
		info, err := os.Stat(other)
		if err == nil && other != filepath.Dir(keep) && time.Since(info.ModTime()) > 7*24*time.Hour {
			_ = os.RemoveAll(other)
		}
	}
}

// module is the first line of the lab's go.mod.
const module = "module github.com/kplan-dev/kplan/lab\n"

// ErrNoSource says that the lab's source tree cannot be found.
var ErrNoSource = errors.New("the lab's source tree cannot be found (run kplan-lab inside a checkout of kplan, or set KPLAN_LAB_SOURCE to its folder lab)")

// Source finds the lab's folder: $KPLAN_LAB_SOURCE, else upwards from the
// working folder and from this program, else where this program was built.
func Source() (string, error) {
	if dir := os.Getenv("KPLAN_LAB_SOURCE"); dir != "" {
		return filepath.Abs(dir)
	}
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if program, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(program))
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			for _, candidate := range []string{dir, filepath.Join(dir, "lab")} {
				if isLab(candidate) {
					return candidate, nil
				}
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", ErrNoSource
}

func isLab(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && bytes.HasPrefix(data, []byte(module))
}
