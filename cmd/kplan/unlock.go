package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// unlockOptions are the flags of unlock.
type unlockOptions struct {
	*app
	inputs     *load.Options
	yes, force bool
	output     data.Format
}

func newUnlock(a *app) *cobra.Command {
	o := &unlockOptions{app: a}
	cmd := &cobra.Command{
		Use:   "unlock [PLAN]",
		Short: "Show who runs a plan, and take its lock away from a run that is gone",
		Long: `Show which run has the lock of a plan in each cluster that the plan writes to, and take it away from a run that is gone. Without PLAN it is
plan.yaml of the current folder.

Variables need values only if it depends on them which clusters those are, and where the lock is kept there.

There is seldom a need: the next run takes over the lock of a run that was killed, at once on the same machine, and from elsewhere after a minute
or so. A run that was heard of in the last minute seems to be alive: with --force it loses its lock all the same, notices within seconds, ends what
it does and fails.

Exit codes: 0 nobody has the lock any more, 1 a cluster cannot be asked, or you did not confirm, 2 bad plan or usage, 5 a run has it that seems to
be alive.`,
		Example: `  kplan unlock plan.yaml
  kplan unlock plan.yaml --yes
  kplan unlock plan.yaml --force
  kplan unlock plan.yaml -o json | jq '.locks[] | select(.holder) | .holder.run'`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addInputs(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.force, "force", false, "also from a run that seems to be alive")
	addFormat(cmd, &o.output, "write to stdout who had the locks, as json or yaml, and whether they were taken away", data.JSON, data.YAML)
	return cmd
}

// unlocked is what unlock found and did, for programs.
type unlocked struct {
	Plan  string         `json:"plan"`
	Locks []unlockedLock `json:"locks"`
}

// unlockedLock is the lock of one cluster.
type unlockedLock struct {
	Cluster   string         `json:"cluster,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	Holder    *ledger.Holder `json:"holder,omitempty"`
	Alive     bool           `json:"alive,omitempty"`
	// TakenAway says that the holder has it no more.
	TakenAway bool   `json:"taken_away,omitempty"`
	Error     string `json:"error,omitempty"`
}

func (o *unlockOptions) run(ctx context.Context, args []string) error {
	path, err := o.choosePlan(args, o.output != "")
	if err != nil {
		return err
	}
	p, err := o.outline(path, *o.inputs)
	if err != nil {
		return &usageError{err: err}
	}
	locks, err := steps.Locks(ctx, steps.Config{Plan: p, Flags: o.flags, UserAgent: userAgent()})
	if err != nil {
		return err
	}
	result := unlocked{Plan: p.Metadata.Name, Locks: []unlockedLock{}}
	var errs []error
	for _, l := range locks {
		one, err := o.unlock(ctx, p, l)
		if err != nil {
			one.Error = o.oneLine(err.Error())
			errs = append(errs, err)
		}
		result.Locks = append(result.Locks, one)
	}
	if len(locks) == 0 {
		o.say("plan %s writes to no cluster, and has no lock", p.Metadata.Name)
	}
	if o.output != "" {
		errs = append(errs, o.print(o.output, result))
	}
	return errors.Join(errs...)
}

// unlock shows one lock, and takes it away.
func (o *unlockOptions) unlock(ctx context.Context, p *plan.Plan, l steps.ClusterLock) (unlockedLock, error) {
	where := l.About
	if l.Cluster != "" {
		where = "cluster " + l.Cluster + " (" + where + ")"
	}
	one := unlockedLock{Cluster: l.Cluster, Namespace: l.Place.Namespace, Holder: l.Holder}
	switch {
	case l.Err != nil:
		return one, runner.WithHint(fmt.Errorf("reading the lock on %s: %w", where, l.Err), runner.HintOf(l.Err))
	case l.Holder == nil:
		o.say("plan %s is not locked on %s", p.Metadata.Name, where)
		return one, nil
	}
	h := *l.Holder
	one.Alive = h.Alive()
	o.say("plan %s is locked on %s by %s", p.Metadata.Name, where, h)
	o.say("last heard of at %s, %s ago", h.Renewed.UTC().Format(time.RFC3339), time.Since(h.Renewed).Round(time.Second))
	if one.Alive && !o.force {
		return one, runner.WithHint(&ledger.HeldError{Plan: p.Metadata.Name, Holder: h}, "it seems to be alive; --force takes the lock away all the same, which ends that run")
	}
	if !o.yes {
		if err := o.confirm(ctx, question{text: "take the lock away from it?", done: "taken away", instead: "--yes says yes"}); err != nil {
			return one, err
		}
	}
	taken, err := l.Place.Unlock(ctx, h)
	switch {
	case err != nil:
		return one, fmt.Errorf("taking the lock away on %s: %w", where, err)
	case taken:
		o.say("taken away")
	default:
		o.say("it has the lock no more")
	}
	one.TakenAway = taken
	return one, nil
}

// say writes a line for people: to stdout, unless that is for programs.
func (o *unlockOptions) say(format string, args ...any) {
	w := o.stdout
	if o.output != "" {
		w = o.stderr
	}
	fmt.Fprintln(w, o.oneLine(fmt.Sprintf(format, args...)))
}
