package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// The places that --record-in names.
const (
	inCluster = "cluster"
	inFiles   = "local"
	inNone    = "none"
)

// addRecordIn registers --record-in.
func addRecordIn(cmd *cobra.Command) *[]string {
	in := cmd.Flags().StringSlice("record-in", []string{inCluster, inFiles},
		"where the run is recorded, for history and --resume: in a Secret of the cluster,\nin .kplan/runs beside the plan (local), or none")
	complete(cmd, "record-in", inCluster, inFiles, inNone)
	return in
}

// checkRecordIn refuses places that do not exist.
func checkRecordIn(in []string) error {
	places := []string{inCluster, inFiles, inNone}
	for _, place := range in {
		if !slices.Contains(places, place) {
			return usagef("--record-in: there is no place %q, only %s", place, strings.Join(places, ", "))
		}
	}
	if len(in) > 1 && slices.Contains(in, inNone) {
		return usagef("--record-in: %s goes with no other place", inNone)
	}
	return nil
}

// bookkeeping is how a run is recorded.
type bookkeeping struct {
	store   ledger.Store
	past    ledger.Past
	running *ledger.Recording // nil before the run
}

// past reads what earlier runs of the plan did. What cannot be read or recorded is
// told, and stops nothing.
func (o *runOptions) past(ctx context.Context, p *plan.Plan, kinds *steps.Steps) {
	if slices.Contains(o.recordIn, inCluster) && o.recorded.store.Place == nil {
		place, err := kinds.Home(ctx)
		switch {
		case err == nil:
			o.recorded.store.Place = &place
		case !errors.Is(err, steps.ErrNoCluster):
			o.unrecorded(&ledger.UnrecordedError{Where: "the cluster", Err: err})
		}
	}
	if slices.Contains(o.recordIn, inFiles) && p.Dir != "" {
		o.recorded.store.Folder = ledger.FolderOf(p.Dir)
	}
	var err error
	o.recorded.past, err = o.recorded.store.Past(ctx, p.Metadata.Name, kinds.Cluster())
	o.unrecorded(err)
	kinds.Remember(o.recorded.past, o.resume)
	if o.resume {
		o.tell(resumption(o.recorded.past.Record, p))
	}
}

// resumption says for people what a resumed run goes on with.
func resumption(r *ledger.Record, p *plan.Plan) string {
	if r == nil {
		return "no run is recorded that could be resumed: all steps run"
	}
	done := 0
	for _, s := range p.Steps {
		if then := r.Step(s.Name); then != nil && then.Done != nil {
			done++
		}
	}
	state := string(r.State)
	if !r.Over() {
		state = "did not come to its end"
	}
	return fmt.Sprintf("resuming after run %s, which %s: %d of %s were done", r.Run, state, done, words.Count(len(p.Steps), "step"))
}

// startRecording records a run from its first event on.
func (o *runOptions) startRecording(ctx context.Context, r *runner.Runner) {
	var err error
	o.recorded.running, err = o.recorded.store.Begin(ctx, r.ID, o.recorded.past)
	o.unrecorded(err)
	r.Observers = append(r.Observers, o.recorded.running.Observers...)
}

// runBy says who runs kplan, as USER@HOST.
func runBy(run string) string {
	self := ledger.Self(run)
	return cmp.Or(self.User, "unknown") + "@" + cmp.Or(self.Host, "unknown")
}

// unrecorded tells what is missing from the run's record. A reader of events wants
// nothing else on stderr.
func (o *runOptions) unrecorded(err error) {
	if mode, e := o.mode(o.progress); e != nil || mode == ui.JSON {
		return
	}
	for _, problem := range split(err) {
		fmt.Fprintf(o.stderr, "warning: the run is not recorded %s\n", words.Clean(o.oneLine(problem.Error())))
	}
}
