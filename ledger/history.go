package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kplan-dev/kplan/runner"
)

// What a run that did not come to its end is called in a history.
const (
	// Interrupted: it is not at work any more, for it has no lock.
	Interrupted runner.State = "interrupted"
	// Unfinished: nobody was asked whether it is still at work.
	Unfinished runner.State = "unfinished"
)

// Run is a run in a history.
type Run struct {
	Summary
	// In is where it is recorded: cluster, local.
	In []string `json:"recorded_in"`

	entry *Entry
}

// NoRunError says that a run is recorded nowhere.
type NoRunError struct{ Plan, Run string }

func (e *NoRunError) Error() string {
	if e.Run == "" {
		return fmt.Sprintf("no run of plan %s is recorded", e.Plan)
	}
	return fmt.Sprintf("no run of plan %s is recorded whose ID begins with %s", e.Plan, e.Run)
}

// Runs lists the recorded runs of a plan, newest first. The error joins what could
// not be read.
func (s Store) Runs(ctx context.Context, plan string) ([]Run, error) {
	var (
		out  []Run
		errs []error
	)
	if s.Place != nil {
		entries, err := s.Place.Records(ctx)
		errs = append(errs, err)
		for _, e := range entries {
			out = append(out, Run{Summary: e.Summary, In: []string{"cluster"}, entry: &e})
		}
	}
	if s.Folder != "" {
		local, err := s.Folder.List(plan)
		errs = append(errs, err)
		for _, l := range local {
			i := slices.IndexFunc(out, func(r Run) bool { return r.Run == l.Run })
			if i < 0 {
				out = append(out, Run{Summary: l, In: []string{"local"}})
				continue
			}
			out[i].In = append(out[i].In, "local")
			if l.Seq > out[i].Seq {
				out[i].Summary = l
			}
		}
	}
	slices.SortFunc(out, func(a, b Run) int { return newer(a.Summary, b.Summary) })
	s.sayHow(ctx, out)
	return out, errors.Join(errs...)
}

// sayHow says of runs that did not come to their end whether they are at work.
func (s Store) sayHow(ctx context.Context, runs []Run) {
	if !slices.ContainsFunc(runs, func(r Run) bool { return !r.Over() }) {
		return
	}
	at := ""
	asked := false
	if s.Place != nil && s.Place.Plan != "" {
		h, err := s.Place.Locked(ctx)
		asked = err == nil
		if h != nil && h.Alive() {
			at = h.Run
		}
	}
	for i := range runs {
		switch r := &runs[i]; {
		case r.Over() || r.Run == at:
		case asked:
			r.State = Interrupted
		default:
			r.State = Unfinished
		}
	}
}

// Find returns the record of the run whose ID is id or begins with it; of the newest
// one for "".
func (s Store) Find(ctx context.Context, plan, id string) (Run, *Record, error) {
	runs, err := s.Runs(ctx, plan)
	if err != nil && len(runs) == 0 {
		return Run{}, nil, err
	}
	i := slices.IndexFunc(runs, func(r Run) bool { return strings.HasPrefix(r.Run, id) })
	if i < 0 {
		return Run{}, nil, &NoRunError{plan, id}
	}
	if id != "" && runs[i].Run != id && i+1 < len(runs) && strings.HasPrefix(runs[i+1].Run, id) {
		return Run{}, nil, fmt.Errorf("the IDs of several runs begin with %s", id)
	}
	r, err := s.get(ctx, runs[i])
	return runs[i], r, err
}

// get reads the record of a run from where it knows more: files have pods' logs too,
// a cluster what the runs before did.
func (s Store) get(ctx context.Context, run Run) (*Record, error) {
	var kept *Record
	if run.entry != nil {
		r, _, err := s.Place.Record(ctx, *run.entry)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		kept = r
	}
	if s.Folder != "" {
		events, err := ReadEvents(s.Folder.Path(run.Run))
		switch {
		case err == nil && (kept == nil || events[len(events)-1].Seq >= kept.Seq):
			return Fold(events, kept), nil
		case err != nil && kept == nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	if kept == nil {
		return nil, &NoRunError{run.Plan, run.Run}
	}
	return kept, nil
}
