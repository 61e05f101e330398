package kubernetes

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
)

// seen is what the API server tells of a run's Jobs and pods. The goroutines that listen
// end with the context that they began with.
type seen struct {
	wake  chan struct{} // has room for one
	ready []func() bool
	group sync.WaitGroup

	mu   sync.Mutex
	jobs map[types.UID]*batchv1.Job
	// pods has those as well that were deleted, as they were last: their end tells what
	// became of their cluster.
	pods map[types.UID]*corev1.Pod
}

// watch begins to listen.
func (r *Run) watch(ctx context.Context) *seen {
	s := &seen{wake: make(chan struct{}, 1), jobs: map[types.UID]*batchv1.Job{}, pods: map[types.UID]*corev1.Pod{}}
	selector := r.Run.Selector() + "," + object.LabelPart + "=" + object.PartWave
	jobs, pods := r.store.Client.BatchV1().Jobs(r.store.Namespace), r.store.Client.CoreV1().Pods(r.store.Namespace)
	s.listen(ctx, selector, &batchv1.Job{},
		func(o metav1.ListOptions) (runtime.Object, error) { return jobs.List(ctx, o) },
		func(o metav1.ListOptions) (watch.Interface, error) { return jobs.Watch(ctx, o) },
		func(o any, deleted bool) {
			if j, is := o.(*batchv1.Job); is && deleted {
				delete(s.jobs, j.UID)
			} else if is {
				s.jobs[j.UID] = j
			}
		})
	s.listen(ctx, selector, &corev1.Pod{},
		func(o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		func(o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) },
		s.pod)
	return s
}

// pod notes how a pod is now, or was when it was deleted.
func (s *seen) pod(o any, deleted bool) {
	p, is := o.(*corev1.Pod)
	if !is {
		return
	}
	if !deleted {
		s.pods[p.UID] = p
		return
	}
	if startOf(p).IsZero() {
		delete(s.pods, p.UID)
		return
	}
	if !gone(p) { // nobody waited for its end
		p = p.DeepCopy()
		p.Status.Phase = corev1.PodFailed
	}
	s.pods[p.UID] = p
}

// listen notes objects of a kind.
func (s *seen) listen(ctx context.Context, selector string, kind runtime.Object, list func(metav1.ListOptions) (runtime.Object, error),
	watching func(metav1.ListOptions) (watch.Interface, error), note func(o any, deleted bool),
) {
	selected := func(o metav1.ListOptions) metav1.ListOptions { o.LabelSelector = selector; return o }
	noted := func(o any, deleted bool) {
		if last, is := o.(cache.DeletedFinalStateUnknown); is {
			o = last.Obj
		}
		s.mu.Lock()
		note(o, deleted)
		s.mu.Unlock()
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc:  func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(selected(o)) },
			WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) { return watching(selected(o)) },
		},
		ObjectType: kind,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { noted(o, false) },
			UpdateFunc: func(_, o any) { noted(o, false) },
			DeleteFunc: func(o any) { noted(o, true) },
		},
		Transform: func(o any) (any, error) {
			if m, is := o.(metav1.Object); is {
				m.SetManagedFields(nil)
			}
			return o, nil
		},
	})
	s.ready = append(s.ready, controller.HasSynced)
	s.group.Go(func() { controller.RunWithContext(ctx) })
}

// synced waits until all is there that was there at first.
func (s *seen) synced(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the management cluster does not list the run's Jobs and pods"))
	defer cancel()
	for {
		all := true
		for _, ready := range s.ready {
			all = all && ready()
		}
		if all {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *seen) wait() { s.group.Wait() }

// view is how things are now: the Jobs of the newest round, and their pods.
func (s *seen) view(r *fleet.Rollout, run object.Run, round int) (*view, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &view{jobs: map[int]*job{}, pods: map[int]map[int]workers{}}
	for _, j := range s.jobs {
		wave, err := strconv.Atoi(j.Labels[object.LabelWave])
		if err != nil || wave < 0 || wave >= len(r.Waves) || j.Name != run.Wave(wave, round) {
			continue
		}
		if v.jobs[wave], err = readJob(j, r.Waves[wave].Clusters); err != nil {
			return nil, err
		}
	}
	for _, p := range s.pods {
		wave, err := strconv.Atoi(p.Labels[object.LabelWave])
		k := indexOf(p)
		if err != nil || k < 0 || p.Labels[object.LabelRound] != strconv.Itoa(round) {
			continue
		}
		if v.pods[wave] == nil {
			v.pods[wave] = map[int]workers{}
		}
		v.pods[wave][k] = append(v.pods[wave][k], p)
	}
	for _, wave := range v.pods {
		for _, all := range wave {
			all.sort()
		}
	}
	return v, nil
}
