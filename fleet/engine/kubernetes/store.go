// Package kubernetes runs a fleet's rollout by Jobs of a management cluster: an Indexed Job
// for each wave, which is made suspended, and a driver that lets one after the other go. The
// driver keeps no state: it is a pod, or the process of whoever looks at the run, and any
// number of both do no harm.
//
// Nothing here ends a pod that is at work, but for an order to abort now: a brake is a word in
// a ConfigMap that workers read before they begin.
package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
)

// Store is the namespace of a management cluster that has the objects of runs.
type Store struct {
	Client    kubernetes.Interface
	Namespace string
}

// Run is a run whose objects are there.
type Run struct {
	*object.Spec
	store Store
}

var (
	creating = metav1.CreateOptions{FieldManager: object.Manager}
	updating = metav1.UpdateOptions{FieldManager: object.Manager}
)

// Create makes the objects of a run: its Jobs are suspended, and nothing starts before
// somebody drives it. The archive has the plan's files; it is nil when a registry has them.
// What was made is removed again when not all of it can be.
func (s Store) Create(ctx context.Context, spec *object.Spec, archive []byte) (_ *Run, err error) {
	maps := s.Client.CoreV1().ConfigMaps(s.Namespace)
	root, waves, err := spec.Rollouts()
	if err != nil {
		return nil, err
	}
	if root, err = maps.Create(ctx, root, creating); err != nil {
		return nil, fmt.Errorf("making ConfigMap %s/%s: %w", s.Namespace, spec.Run.Rollout(), err)
	}
	r := &Run{Spec: spec, store: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Delete(context.WithoutCancel(ctx)))
		}
	}()
	spec.OwnedBy(root)
	owner := []metav1.OwnerReference{*spec.Owner}
	if archive != nil {
		files, err := spec.Files(archive)
		if err != nil {
			return nil, err
		}
		waves = append(waves, files)
	}
	results, err := spec.ResultsMap(object.Saved{Began: []time.Time{spec.Began}})
	if err != nil {
		return nil, err
	}
	for _, m := range append(waves, results) {
		m.OwnerReferences = owner
		if _, err := maps.Create(ctx, m, creating); err != nil {
			return nil, fmt.Errorf("making ConfigMap %s/%s: %w", s.Namespace, m.Name, err)
		}
	}
	for i, w := range spec.Rollout.Waves {
		if w.Clusters == 0 {
			continue
		}
		all := make(object.Indexes, w.Clusters)
		for k := range all {
			all[k] = k
		}
		if err := r.makeWave(ctx, i, 1, all); err != nil {
			return nil, err
		}
	}
	// The last one: a run that has it is whole.
	if _, err := maps.Create(ctx, spec.ControlMap(object.Orders{Round: 1}), creating); err != nil {
		return nil, fmt.Errorf("making ConfigMap %s/%s: %w", s.Namespace, spec.Run.Control(), err)
	}
	return r, nil
}

// makeWave makes the suspended Job of a wave.
func (r *Run) makeWave(ctx context.Context, wave, round int, clusters object.Indexes) error {
	job := r.WaveJob(wave, round, clusters)
	_, err := r.store.Client.BatchV1().Jobs(r.store.Namespace).Create(ctx, job, creating)
	if err != nil && !apierrors.IsAlreadyExists(err) { // it is of the same run, wave and round
		return fmt.Errorf("making Job %s/%s: %w", r.store.Namespace, job.Name, err)
	}
	return nil
}

// MakeDriver makes the Job of the driver, unless the round has one.
func (r *Run) MakeDriver(ctx context.Context) error {
	o, err := r.Orders(ctx)
	if err != nil {
		return err
	}
	job := r.DriverJob(o.Round)
	_, err = r.store.Client.BatchV1().Jobs(r.store.Namespace).Create(ctx, job, creating)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making Job %s/%s: %w", r.store.Namespace, job.Name, err)
	}
	return nil
}

// HasDriver reports whether a driver's Job works on the run.
func (r *Run) HasDriver(ctx context.Context, round int) bool {
	job, err := r.store.Client.BatchV1().Jobs(r.store.Namespace).Get(ctx, r.Run.Driver(round), metav1.GetOptions{})
	return err == nil && !ended(job)
}

// Delete removes all objects of the run.
func (r *Run) Delete(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	err := r.store.Client.CoreV1().ConfigMaps(r.store.Namespace).Delete(ctx, r.Run.Rollout(), metav1.DeleteOptions{PropagationPolicy: &background})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// AbsentError says that there is no such run.
type AbsentError struct{ Namespace, Run string }

func (e *AbsentError) Error() string {
	if e.Run == "" {
		return fmt.Sprintf("namespace %s has no run of the fleet", e.Namespace)
	}
	return fmt.Sprintf("namespace %s has no run %s", e.Namespace, e.Run)
}

// Usage reports that the command line is at fault.
func (e *AbsentError) Usage() bool { return true }

// Open reads a run.
func (s Store) Open(ctx context.Context, run object.Run) (*Run, error) {
	if err := run.Check(); err != nil {
		return nil, err
	}
	root, err := s.get(ctx, run, run.Rollout())
	if err != nil {
		return nil, err
	}
	spec, err := object.ReadSpec(root)
	if err != nil {
		return nil, err
	}
	waves := make([][]object.Member, len(spec.Parts))
	for i, digest := range spec.Parts {
		m, err := s.get(ctx, run, run.Clusters(i))
		if err == nil {
			waves[i], err = object.ReadClusters(m, digest)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := spec.Whole(waves); err != nil {
		return nil, err
	}
	return &Run{Spec: spec, store: s}, nil
}

func (s Store) get(ctx context.Context, run object.Run, name string) (*corev1.ConfigMap, error) {
	m, err := s.Client.CoreV1().ConfigMaps(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && name == run.Rollout():
		return nil, &AbsentError{Namespace: s.Namespace, Run: string(run)}
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", s.Namespace, name, err)
	}
	return m, nil
}

// Runs are the IDs of the runs of a fleet, the newest first; of all fleets for "".
func (s Store) Runs(ctx context.Context, name string) ([]object.Run, error) {
	selector := object.LabelPart + "=" + object.PartRollout + ",!" + object.LabelWave
	if name != "" {
		selector += "," + object.LabelFleet + "=" + object.FleetLabel(name)
	}
	list, err := s.Client.CoreV1().ConfigMaps(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the ConfigMaps of namespace %s: %w", s.Namespace, err)
	}
	var runs []object.Run
	for _, m := range list.Items {
		runs = append(runs, object.Run(m.Labels[object.LabelRun]))
	}
	slices.SortFunc(runs, func(a, b object.Run) int { return cmp.Compare(b, a) })
	return runs, nil
}

// Latest opens the newest run of a fleet.
func (s Store) Latest(ctx context.Context, name string) (*Run, error) {
	runs, err := s.Runs(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, &AbsentError{Namespace: s.Namespace}
	}
	return s.Open(ctx, runs[0])
}

// Orders are what people ordered.
func (r *Run) Orders(ctx context.Context) (object.Orders, error) {
	m, err := r.store.get(ctx, r.Run, r.Run.Control())
	if err != nil {
		return object.Orders{}, err
	}
	return object.ReadOrders(m)
}

// order changes what people ordered. The change is done again when somebody else was
// quicker; it returns false to leave all as it is.
func (r *Run) order(ctx context.Context, change func(*object.Orders) (bool, error)) error {
	return retry.RetryOnConflict(often, func() error {
		m, err := r.store.get(ctx, r.Run, r.Run.Control())
		if err != nil {
			return err
		}
		o, err := object.ReadOrders(m)
		if err != nil {
			return err
		}
		changed, err := change(&o)
		if err != nil || !changed {
			return err
		}
		o.Write(m)
		_, err = r.store.Client.CoreV1().ConfigMaps(r.store.Namespace).Update(ctx, m, updating)
		return err
	})
}

var often = wait.Backoff{Steps: 20, Duration: 10 * time.Millisecond, Factor: 1.2, Jitter: 0.5}

// Saved are the results that were saved.
func (r *Run) Saved(ctx context.Context) (object.Saved, error) {
	m, err := r.store.get(ctx, r.Run, r.Run.Results())
	if err != nil {
		return object.Saved{}, err
	}
	return object.ReadSaved(m)
}

// save changes the results that are saved, as order does.
func (r *Run) save(ctx context.Context, change func(*object.Saved)) (saved object.Saved, err error) {
	err = retry.RetryOnConflict(often, func() error {
		m, err := r.store.get(ctx, r.Run, r.Run.Results())
		if err != nil {
			return err
		}
		if saved, err = object.ReadSaved(m); err != nil {
			return err
		}
		change(&saved)
		if err := saved.Write(m); err != nil {
			return err
		}
		_, err = r.store.Client.CoreV1().ConfigMaps(r.store.Namespace).Update(ctx, m, updating)
		return err
	})
	return saved, err
}
