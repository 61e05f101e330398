// Package compile runs go build and tells how far it is: of the packages that
// are not in Go's cache, how many were compiled. It decides nothing about what
// is stale; Go does.
package compile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// first is when a build begins to tell how far it is, and interval how often it
	// does from then on.
	first    = 5 * time.Second
	interval = 15 * time.Second
	// guessFrom is how long a build must have worked before it says how long it
	// will yet.
	guessFrom = 30 * time.Second
)

// Program is what to build.
type Program struct {
	Name    string
	Dir     string   // where go build runs
	Package string   // such as ./cmd/kube
	Output  string   // the file to write
	Flags   []string // of go build
	Env     []string // besides that of the process
	// Work is the CPU time that it takes when nothing is in Go's cache.
	Work time.Duration
}

// Error says that a program could not be built.
type Error struct {
	Program string
	Output  string // the last lines of go build
	Err     error
}

func (e *Error) Error() string {
	return strings.TrimSpace(fmt.Sprintf("build %s: %v\n%s", e.Program, e.Err, e.Output))
}

func (e *Error) Unwrap() error { return e.Err }

// Run builds the program. say takes lines for people, from this goroutine only.
func (p Program) Run(ctx context.Context, say func(string)) error {
	tool, err := exec.LookPath("go")
	if err != nil {
		return &Error{Program: p.Name, Err: errors.New("no Go toolchain on the PATH (Go 1.26 or later is needed)")}
	}
	began := time.Now()
	if p.Work > 0 {
		say(fmt.Sprintf("building %s; with nothing in Go's cache that takes about %s", p.Name, Estimate(p.Work, runtime.NumCPU())))
	} else {
		say("building " + p.Name)
	}
	c := &count{packages: map[string]bool{}}
	listing, stop := context.WithCancelCause(ctx)
	var list sync.WaitGroup
	defer list.Wait()
	defer stop(nil)
	list.Go(func() { p.list(listing, tool, c) }) // ends with listing
	ended := make(chan error, 1)
	go func() { ended <- p.build(ctx, tool, c) }() // ends with ctx
	tick := time.NewTimer(first)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			say(p.Name + ": " + c.progress(time.Since(began)))
			tick.Reset(interval)
		case err := <-ended:
			if err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				return &Error{Program: p.Name, Output: last(c.said(), 20), Err: err}
			}
			say(fmt.Sprintf("built %s in %s", p.Name, time.Since(began).Round(time.Second)))
			return nil
		}
	}
}

func (p Program) command(ctx context.Context, tool string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir, cmd.Env = p.Dir, append(os.Environ(), p.Env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// build runs go build, which names each package that it compiles.
func (p Program) build(ctx context.Context, tool string, c *count) error {
	cmd := p.command(ctx, tool, append(append([]string{"build", "-v", "-o", p.Output}, p.Flags...), p.Package)...)
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	var reader sync.WaitGroup
	reader.Go(func() { // ends when write is closed
		lines := bufio.NewScanner(read)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			c.line(lines.Text())
		}
		_, _ = io.Copy(io.Discard, read) // a line that is too long must not stop the build
	})
	err := cmd.Run()
	_ = write.Close()
	reader.Wait()
	return err
}

// list asks Go what there is to compile. What was compiled before the answer is
// counted by build.
func (p Program) list(ctx context.Context, tool string, c *count) {
	args := append([]string{"list", "-deps", "-f", "{{if and .Stale (ne .StaleReason \"" + linked + "\")}}{{.ImportPath}}{{end}}"}, p.Flags...)
	out, err := p.command(ctx, tool, append(args, p.Package)...).Output()
	if err == nil { // else go build says what is wrong
		c.expect(strings.Fields(string(out)))
	}
}

// linked is why Go calls a program stale that only lacks its file (cmd/go/internal/work).
const linked = "not installed but available in build cache"

// count is how far a build is.
type count struct {
	mu       sync.Mutex
	packages map[string]bool // to be compiled; true: begun
	listed   bool            // packages are all
	begun    int
	modules  int // that were downloaded
	output   bytes.Buffer
}

// expect notes packages that are to be compiled.
func (c *count) expect(packages []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = true
	for _, p := range packages {
		if _, known := c.packages[p]; !known {
			c.packages[p] = false
		}
	}
}

// line notes one that go build wrote: the path of a package, a module, or what
// is wrong.
func (c *count) line(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case strings.HasPrefix(text, "go: downloading "):
		c.modules++
	case text != "" && !strings.ContainsAny(text, " \t:#"):
		if !c.packages[text] {
			c.packages[text] = true
			c.begun++
		}
	default:
		fmt.Fprintln(&c.output, text)
	}
}

func (c *count) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.String()
}

// progress says how far it is after a time.
func (c *count) progress(after time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := after.Round(time.Second)
	done, all := c.begun, len(c.packages)
	switch {
	case done == 0 && c.modules > 0:
		return fmt.Sprintf("%s downloaded after %s", number(c.modules, "module"), took)
	case done == 0 || !c.listed:
		return fmt.Sprintf("%s compiled after %s", number(done, "package"), took)
	case done == all:
		return fmt.Sprintf("all %d packages compiled after %s, linking", all, took)
	case after < guessFrom:
		return fmt.Sprintf("%d of %d packages compiled after %s", done, all, took)
	}
	left := time.Duration(float64(after) * float64(all-done) / float64(done))
	return fmt.Sprintf("%d of %d packages compiled after %s, about %s to go", done, all, took, rough(left))
}

// Estimate says how long so much work takes on a number of cores.
func Estimate(work time.Duration, cores int) string {
	on := fmt.Sprintf("%d cores, if nothing else uses them", cores)
	if cores == 1 {
		on = "one core, if nothing else uses it"
	}
	return rough(work/time.Duration(cores)) + " on " + on
}

// rough is a duration as people estimate one.
func rough(d time.Duration) string {
	switch {
	case d < 50*time.Second:
		return fmt.Sprintf("%d seconds", max(10, int((d+5*time.Second)/(10*time.Second))*10))
	case d < 90*time.Second:
		return "a minute"
	}
	return fmt.Sprintf("%d minutes", int((d+30*time.Second)/time.Minute))
}

func number(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

func last(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
