package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
)

// OrderError says that an order makes no sense for the run as it is.
type OrderError struct{ Text, Tip string }

func (e *OrderError) Error() string { return e.Text }

// Hint says what to do about it.
func (e *OrderError) Hint() string { return e.Tip }

// Usage reports that the command line is at fault.
func (e *OrderError) Usage() bool { return true }

// over returns an error when the present round has ended.
func (r *Run) over(ctx context.Context) error {
	saved, err := r.Saved(ctx)
	if err != nil {
		return err
	}
	o, err := r.Orders(ctx)
	if err == nil && saved.Ended >= o.Round {
		return &OrderError{fmt.Sprintf("run %s has ended: %s", r.Run, saved.State), "kplan fleet resume goes on with what is unfinished"}
	}
	return err
}

// Pause lets nothing new start until somebody resumes. What is at work goes on.
func (r *Run) Pause(ctx context.Context, by string) error {
	if err := r.over(ctx); err != nil {
		return err
	}
	return r.order(ctx, func(o *object.Orders) (bool, error) {
		was := o.Paused
		o.Paused, o.By = true, by
		return !was, nil
	})
}

// Approve lets a wave begin. Without a name it is the first that waits for approval.
func (r *Run) Approve(ctx context.Context, wave, by string) (string, error) {
	if err := r.over(ctx); err != nil {
		return "", err
	}
	err := r.order(ctx, func(o *object.Orders) (bool, error) {
		i := slices.IndexFunc(r.Rollout.Waves, func(w fleet.WaveInfo) bool {
			return w.Name == wave || wave == "" && w.Approve && !o.Approves(w.Name)
		})
		switch {
		case i < 0 && wave == "":
			return false, &OrderError{"no wave waits for approval", ""}
		case i < 0:
			return false, &OrderError{fmt.Sprintf("the rollout has no wave %q", wave), ""}
		}
		if wave = r.Rollout.Waves[i].Name; o.Approves(wave) {
			return false, nil
		}
		o.Approve(wave)
		o.By = by
		return true, nil
	})
	return wave, err
}

// Abort lets nothing new start any more. Now stops as well what is at work: workers are told
// to end, and end what they have sent.
func (r *Run) Abort(ctx context.Context, now bool, by string) error {
	if err := r.over(ctx); err != nil {
		return err
	}
	return r.order(ctx, func(o *object.Orders) (bool, error) {
		if o.Aborted && (o.Now || !now) {
			return false, nil
		}
		o.Aborted, o.Now, o.By = true, o.Now || now, by
		return true, nil
	})
}

// Resumed says what a resumed run does.
type Resumed struct {
	// Paused says that it was paused, and goes on.
	Paused bool
	// Round is the new round, and Clusters so many it does again.
	Round, Clusters int
}

// Resume goes on with a run: with a paused one that is under way, or, in a round of its own,
// with exactly what is unfinished of one that is over.
func (r *Run) Resume(ctx context.Context, by string) (Resumed, error) {
	o, err := r.Orders(ctx)
	if err != nil {
		return Resumed{}, err
	}
	saved, err := r.Saved(ctx)
	if err != nil {
		return Resumed{}, err
	}
	if saved.Ended < o.Round {
		return r.unpause(ctx, by)
	}
	todo, n := r.unfinished(saved)
	if n == 0 {
		return Resumed{}, &OrderError{fmt.Sprintf("run %s is done on all clusters: there is nothing to resume", r.Run), ""}
	}
	round := o.Round + 1
	for i, clusters := range todo {
		if len(clusters) == 0 {
			continue
		}
		if err := r.makeWave(ctx, i, round, clusters); err != nil {
			return Resumed{}, err
		}
	}
	if err := r.retire(ctx, o.Round); err != nil {
		return Resumed{}, err
	}
	if _, err := r.save(ctx, func(s *object.Saved) {
		for len(s.Began) < round {
			s.Began = append(s.Began, time.Now().UTC())
		}
	}); err != nil {
		return Resumed{}, err
	}
	err = r.order(ctx, func(o *object.Orders) (bool, error) {
		if o.Round >= round {
			return false, errors.New("somebody else resumed the run just now: attach to it")
		}
		*o = object.Orders{Round: round, Control: fleet.Control{Approved: o.Approved, By: by}}
		return true, nil
	})
	return Resumed{Round: round, Clusters: n}, err
}

// unpause goes on with a run that is under way.
func (r *Run) unpause(ctx context.Context, by string) (Resumed, error) {
	was := false
	err := r.order(ctx, func(o *object.Orders) (bool, error) {
		switch {
		case o.Aborted || o.Stop != nil:
			return false, &OrderError{"the run is being stopped: clusters that were begun come to their end first", "kplan fleet attach shows when it is over; resume it then"}
		case !o.Paused:
			return false, nil
		}
		was, o.Paused, o.By = true, false, by
		return true, nil
	})
	return Resumed{Paused: was}, err
}

// unfinished are the clusters of each wave that are not done.
func (r *Run) unfinished(saved object.Saved) (waves []object.Indexes, n int) {
	for _, w := range r.Rollout.Waves {
		var left object.Indexes
		for i, c := range r.Rollout.Wave(w.Name) {
			if !saved.Clusters[c.Name].State.Good() {
				left = append(left, i)
			}
		}
		waves, n = append(waves, left), n+len(left)
	}
	return waves, n
}

// retire suspends the Jobs of a round that is over: of a stopped run they may have indexes
// left.
func (r *Run) retire(ctx context.Context, round int) error {
	for i := range r.Rollout.Waves {
		j, err := r.store.Client.BatchV1().Jobs(r.store.Namespace).Get(ctx, r.Run.Wave(i, round), metav1.GetOptions{})
		if err != nil || suspended(j) || ended(j) {
			continue // it is gone, or starts nothing
		}
		if err := r.suspend(ctx, j, true); err != nil {
			return err
		}
	}
	return nil
}
