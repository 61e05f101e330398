package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/local"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/fleet/inventory"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/plan/redact"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/lock"
)

// fleetWork is a fleet that this process runs.
type fleetWork struct {
	*fleetRunOptions
	mode    ui.Mode
	signals *interrupt.Signals
	fleet   *fleetload.Fleet
	managed *inventory.Management
	record  *record.Run
	// withheld are the sensitive variables whose values are not in the rollout.
	withheld []string
}

// run runs the rollout of the run's folder, or what is unfinished of it.
func (w *fleetWork) run(ctx context.Context) error {
	from := &fleetSources{app: w.app, secrets: &redact.Set{}}
	defer from.close()
	kubeconfigs := inventory.Kubeconfigs{Management: w.managed}
	values := *w.inputs
	values.Decrypter = w.keys
	engine := local.Engine{
		Record: w.record, Parallel: w.parallel, By: runBy(w.record.ID), Program: readBuild().Version, Abort: w.signals.Abort,
		Members: &member.Config{
			File: w.record.Inputs.Plan, Inputs: values, Target: w.record.Rollout.Target, Kubeconfig: kubeconfigs.Read, Flags: w.flags,
			Sources: from.of, Secrets: from.secrets, UserAgent: userAgent(), By: runBy(w.record.ID), Program: readBuild().Version,
			LockWait: w.lockWait, Unrecorded: slices.Contains(w.recordIn, inNone),
		},
	}
	renderer := w.show(ctx, &engine)
	if d, is := renderer.(*fleetview.Display); is {
		defer d.Release() // also when the run panics
	}
	reports := reportsOf(w.reports, clusterEvents(w.record))
	engine.Observe = func(e fleet.Event) {
		reports.Observe(e)
		renderer.Observe(e)
	}
	x, err := engine.Run(ctx)
	if over := w.outcome(ctx, x); over != nil {
		if w.mode.Reports() {
			over = shown(over)
		}
		err = errors.Join(over, err)
	}
	late := reports.Close()
	if e := renderer.Close(); e != nil {
		err = errors.Join(err, fmt.Errorf("writing progress: %w", e))
	}
	return errors.Join(err, late)
}

// show makes what shows the run.
func (w *fleetWork) show(ctx context.Context, engine *local.Engine) fleetview.Renderer {
	o := fleetview.Options{Options: w.options(w.stderr), Command: w.command}
	if w.mode != ui.TTY {
		return w.fleetRenderer(w.mode, o)
	}
	c := w.fleetTerminal(o, clusterEvents(w.record), "go on with what is unfinished: "+w.command("resume"))
	c.Orders, c.Order = true, fleetOrder(w.record)
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		if by := (*runner.Interrupted)(nil); errors.As(context.Cause(ctx), &by) {
			close(stopped)
		}
	})
	c.Stop, c.Stopped, c.Aborted = w.signals.Interrupt, stopped, w.signals.Abort
	d := fleetview.Open(c)
	engine.Inner = d.Inner
	return d
}

// fleetSources gets what the plan names by address, once for all clusters whose plans have
// the same repositories.
type fleetSources struct {
	*app
	secrets *redact.Set

	mu  sync.Mutex
	all map[string]*source.Store
}

// of returns the store for a plan as it is with the values for a cluster.
func (s *fleetSources) of(p *plan.Plan) (*source.Store, error) {
	key, err := json.Marshal(p.Repositories)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.all[string(key)]; store != nil {
		return store, nil
	}
	o, err := s.sourceOptions(p)
	if err != nil {
		return nil, err
	}
	o.Secrets = s.secrets
	f, err := s.readLock(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !s.fetching.locked:
	case errors.Is(err, fs.ErrNotExist):
		return nil, &usageError{err: fmt.Errorf("the plan has no lock file, which --locked asks for: %s", lock.Path(p.File)), hint: "write it by: " + s.name + " lock " + p.File}
	case err != nil:
		return nil, &usageError{err: err}
	default:
		o.Pins = &lock.Pins{File: f, Strict: s.fetching.locked, Missing: s.fetching.miss}
	}
	if s.all == nil {
		s.all = map[string]*source.Store{}
	}
	s.all[string(key)] = source.New(o)
	return s.all[string(key)], nil
}

func (s *fleetSources) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, store := range s.all {
		store.Close()
	}
}

// fileSum is the SHA-256 of a file, in hex.
func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// givenSum tells what --set and --var-file give from all else. It does not tell what that is.
func givenSum(in load.Options) (string, error) {
	if len(in.Set) == 0 && len(in.VarFiles) == 0 && in.HelmEngine == "" {
		return "", nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", in.Set, in.HelmEngine)
	for _, path := range in.VarFiles {
		sum, err := fileSum(path)
		if err != nil {
			return "", &usageError{err: err}
		}
		fmt.Fprintln(h, sum)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
