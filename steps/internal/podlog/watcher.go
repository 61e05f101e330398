package podlog

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/steps/internal/stall"
	"github.com/kplan-dev/kplan/webhook"
)

const (
	// mostWarnings is how many warnings of Kubernetes are told in one attempt.
	mostWarnings = 30
	// before is how long before the attempt a warning may have come that is told
	// of what is no pod.
	before = time.Minute
)

// watcher watches the pods of a namespace and what Kubernetes warns of in it: two
// lists and two watches, whatever is waited for.
type watcher struct {
	reporter  *Reporter
	namespace string
	synced    chan struct{} // closed when the pods were listed, or may not be
	// Reporter.mu guards what follows.
	pods     map[string]*corev1.Pod
	warnings map[string]*corev1.Event
}

// watcher returns the watcher of a namespace, which is watched from then on. The caller holds
// mu.
func (t *Reporter) watcher(namespace string) *watcher {
	s := t.watchers[namespace]
	if s != nil {
		return s
	}
	s = &watcher{
		reporter: t, namespace: namespace, synced: make(chan struct{}),
		pods: map[string]*corev1.Pod{}, warnings: map[string]*corev1.Event{},
	}
	t.watchers[namespace] = s
	synced := sync.OnceFunc(func() { close(s.synced) })
	t.follow(s, "pods", &corev1.Pod{}, fields.Everything(), synced, func(o any, gone bool) {
		if p, ok := o.(*corev1.Pod); ok {
			s.seePod(p, gone)
		}
	})
	warnings := fields.OneTermEqualSelector("type", corev1.EventTypeWarning)
	t.follow(s, "events", &corev1.Event{}, warnings, func() {}, func(o any, gone bool) {
		if e, ok := o.(*corev1.Event); ok && !gone {
			s.seeWarning(e)
		}
	})
	return s
}

// follow lists and watches a resource of the namespace until the reporter is closed, or
// until it is found that it may not. seen is called from one goroutine.
func (t *Reporter) follow(s *watcher, resource string, of runtime.Object, which fields.Selector, synced func(), seen func(o any, gone bool)) {
	if t.refuses(resource, s.namespace) {
		synced()
		return
	}
	ctx, stop := context.WithCancelCause(t.ctx)
	list := cache.NewListWatchFromClient(t.client.CoreV1().RESTClient(), resource, s.namespace, which)
	informer := cache.NewSharedIndexInformer(list, of, 0, nil)
	_ = informer.SetTransform(func(o any) (any, error) { // it has not started
		if m, ok := o.(metav1.Object); ok {
			m.SetManagedFields(nil)
		}
		return o, nil
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			t.forbidden(resource, s.namespace, err)
			stop(err)
		}
	})
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen(o, false) },
		UpdateFunc: func(_, o any) { seen(o, false) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			seen(o, true)
		},
	})
	if err != nil { // it has not been stopped
		stop(err)
		synced()
		return
	}
	t.begin(func() { informer.RunWithContext(ctx) })
	t.begin(func() {
		defer stop(nil)
		select {
		case <-handler.HasSyncedChecker().Done():
		case <-ctx.Done():
		}
		synced()
		<-ctx.Done()
	})
}

// await waits until the pods are known.
func (s *watcher) await(ctx context.Context) {
	select {
	case <-s.synced:
	case <-ctx.Done():
	}
}

// seePod notes how a pod stands, and reads its logs for those that wait for it.
func (s *watcher) seePod(p *corev1.Pod, gone bool) {
	s.reporter.mu.Lock()
	s.pods[p.Name] = p
	if gone {
		delete(s.pods, p.Name)
	}
	var waiting []*target
	for _, c := range s.reporter.targets {
		if c.active && c.owns(p) {
			waiting = append(waiting, c)
		}
	}
	s.reporter.mu.Unlock()
	for _, c := range waiting {
		s.look(c)
	}
}

// look looks at the pods of c.
func (s *watcher) look(c *target) {
	t := s.reporter
	t.mu.Lock()
	var mine, bad []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[name]
		if !c.owns(p) {
			continue
		}
		mine = append(mine, p)
		if p.Status.Phase != corev1.PodSucceeded && !ready(p) {
			bad = append(bad, p)
		}
	}
	trouble := clean.Text(webhook.PodProblem(bad))
	news := trouble != c.trouble && c.last.Type != "" && t.targets[c.ref] == c && t.current == c.ref
	c.trouble = trouble
	if trouble != "" || !slices.ContainsFunc(mine, func(p *corev1.Pod) bool { return t.fell(p) }) {
		c.worst = trouble
	}
	again := c.last
	if trouble != "" {
		again.Message += "; " + trouble
	}
	for _, p := range mine {
		t.read(c, p)
	}
	warnings := slices.Collect(maps.Values(s.warnings))
	t.mu.Unlock()
	if news {
		t.reporter.Report(again)
	}
	for _, e := range warnings {
		s.warn(e)
	}
}

// seeWarning notes what Kubernetes warns of.
func (s *watcher) seeWarning(e *corev1.Event) {
	s.reporter.mu.Lock()
	s.warnings[e.Name] = e
	s.reporter.mu.Unlock()
	s.warn(e)
}

// warn tells a warning once, if it is about what is waited for.
func (s *watcher) warn(e *corev1.Event) {
	t := s.reporter
	t.mu.Lock()
	c := s.regards(e)
	if c == nil {
		t.mu.Unlock()
		return
	}
	of := c.called()
	delete(s.warnings, e.Name)
	text := "Warning " + e.Reason + ": " + line(e.Message)
	object := e.InvolvedObject.Kind + "/" + s.namespace + "/" + e.InvolvedObject.Name
	told := t.said[object+" "+text]
	t.said[object+" "+text] = true
	if !told {
		t.warnings++
	}
	words := webhook.Explain(e.Reason + ": " + e.Message)
	if words != "" && !t.said[words] {
		t.said[words] = true
		text += "\nin words: " + words
	}
	most := t.warnings > mostWarnings
	t.mu.Unlock()
	if !told && !most {
		t.log(of, object, text)
	}
}

// regards returns what is waited for that a warning is about; nil without. The caller
// holds mu.
func (s *watcher) regards(e *corev1.Event) *target {
	for _, to := range slices.SortedFunc(maps.Keys(s.reporter.targets), ref.compare) {
		c := s.reporter.targets[to]
		switch p := s.pods[e.InvolvedObject.Name]; {
		case !c.active || c.namespace != s.namespace:
		case e.InvolvedObject.Kind == string(pod):
			if p != nil && p.UID == e.InvolvedObject.UID && c.owns(p) && !ready(p) {
				return c
			}
		case c.isAbout(e) && stall.EventTime(e).After(s.reporter.began.Add(-before)):
			return c
		}
	}
	return nil
}

// fell reports whether a container of a pod has ended and was started anew since the
// attempt began.
func (t *Reporter) fell(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		last := s.LastTerminationState.Terminated
		return last != nil && last.FinishedAt.After(t.began)
	})
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
