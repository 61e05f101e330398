package kubernetes

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
)

// quiet is for how long no pod of a stopped run may be at work before its Jobs are
// suspended: one that read its orders just before the run was stopped shows within that.
const quiet = 10 * time.Second

// saveEvery is how often results are saved at most.
const saveEvery = 2 * time.Second

// act does what follows of how the run stands. All of it may be done twice.
func (l *loop) act(ctx context.Context, v *view) error {
	if l.x.Stop != nil {
		return l.brake(ctx, v)
	}
	for i, w := range l.x.Waves {
		j := v.jobs[i]
		switch {
		case w.State != fleet.WaveRunning:
		case j == nil:
			l.say(fleet.Event{
				Wave: w.Name, Message: "the Job of the wave is gone", Error: fmt.Sprintf("Job %s/%s is not there", l.store.Namespace, l.Spec.Run.Wave(i, v.orders.Round)),
				Hint: "kplan fleet abort ends the run, and kplan fleet resume then goes on with what is unfinished",
			})
		case suspended(j.Job) && !ended(j.Job):
			if err := l.suspend(ctx, j.Job, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// brake lets nothing new start of a stopped run. What is at work ends by itself, unless it
// is to be stopped now.
func (l *loop) brake(ctx context.Context, v *view) error {
	if v.orders.Stop == nil {
		err := l.order(ctx, func(o *object.Orders) (bool, error) {
			if o.Stop != nil || o.Round != v.orders.Round {
				return false, nil
			}
			o.Stop = l.x.Stop
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	began := func(w workers) bool { return !w.began().IsZero() }
	if l.stopped.IsZero() || working(v, began) {
		l.stopped = v.now
	}
	if !v.orders.Now && v.now.Sub(l.stopped) < quiet {
		return nil
	}
	for _, j := range v.jobs {
		if !suspended(j.Job) && !ended(j.Job) {
			if err := l.suspend(ctx, j.Job, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// suspend suspends a Job, or lets it go.
func (r *Run) suspend(ctx context.Context, j *batchv1.Job, yes bool) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"suspend":%t}}`, j.UID, yes)
	_, err := r.store.Client.BatchV1().Jobs(r.store.Namespace).Patch(ctx, j.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: object.Manager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patching Job %s/%s: %w", r.store.Namespace, j.Name, err)
	}
	return nil
}

// keep saves results, when there are new ones.
func (l *loop) keep(ctx context.Context, now time.Time) error {
	if now.Sub(l.tried) < saveEvery || !l.unsaved() {
		return nil
	}
	l.tried = now
	saved, err := l.save(ctx, l.merge)
	if err == nil {
		l.saved = saved
	}
	return err
}

// unsaved reports whether a result is not saved yet.
func (l *loop) unsaved() bool {
	for _, c := range l.x.Clusters {
		if _, is := l.outcome(c); is {
			return true
		}
	}
	return false
}

// outcome is what became of a cluster in this round, if that is not saved.
func (l *loop) outcome(c *fleet.ClusterStatus) (object.Outcome, bool) {
	if !c.State.Over() {
		return object.Outcome{}, false
	}
	was, known := l.saved.Clusters[c.Name]
	if known && (was.Round == l.x.Round && was.State == c.State || was.State.Good()) {
		return object.Outcome{}, false
	}
	return object.Outcome{State: c.State, Round: l.x.Round, Attempt: c.Attempt, At: c.Since, Started: c.Started, Result: c.Result}, true
}

// merge puts new results into those that are saved.
func (l *loop) merge(s *object.Saved) {
	if s.Clusters == nil {
		s.Clusters = map[string]object.Outcome{}
	}
	for _, c := range l.x.Clusters {
		o, is := l.outcome(c)
		if is && s.Clusters[c.Name].Round <= o.Round {
			s.Clusters[c.Name] = o
		}
	}
}
