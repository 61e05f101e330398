package podlog

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/stall"
)

// kind is a kind of object that has pods.
type kind string

const (
	pod         kind = "Pod"
	job         kind = "Job"
	deployment  kind = "Deployment"
	replicaSet  kind = "ReplicaSet"
	statefulSet kind = "StatefulSet"
	daemonSet   kind = "DaemonSet"
	service     kind = "Service"
)

// kinds are the names that reports give to kinds: the kind itself, or what the user
// wrote in a wait step, in small letters and without a group.
var kinds = map[string]kind{
	"pod": pod, "pods": pod, "po": pod,
	"job": job, "jobs": job,
	"deployment": deployment, "deployments": deployment, "deploy": deployment,
	"replicaset": replicaSet, "replicasets": replicaSet, "rs": replicaSet,
	"statefulset": statefulSet, "statefulsets": statefulSet, "sts": statefulSet,
	"daemonset": daemonSet, "daemonsets": daemonSet, "ds": daemonSet,
}

// ref is an object that is waited for.
type ref struct {
	kind            kind
	namespace, name string // the name may be a selector, of pods
}

// parse reads KIND/NAMESPACE/NAME. It is not ok for kinds that have no pods.
func parse(object string) (ref, bool) {
	parts := strings.SplitN(object, "/", 3)
	if len(parts) != 3 {
		return ref{}, false
	}
	name, _, _ := strings.Cut(strings.ToLower(parts[0]), ".")
	k, known := kinds[name]
	return ref{k, parts[1], parts[2]}, known
}

func serviceOf(w *runner.Webhook) ref {
	namespace, name, _ := strings.Cut(w.Service, "/")
	return ref{service, namespace, name}
}

// String is KIND/NAMESPACE/NAME.
func (to ref) String() string { return string(to.kind) + "/" + to.namespace + "/" + to.name }

// compare orders targets by what people call them.
func (to ref) compare(other ref) int { return strings.Compare(to.String(), other.String()) }

// target is what is known of a target. Reporter.mu guards it.
type target struct {
	ref
	// last is the last report of progress; its Type is empty for none.
	last runner.Report
	// at is when what is told of the target last changed.
	at time.Time
	// active says that its pods are looked at.
	active bool
	// selector finds the pods of a Service, and those of a target whose name is
	// a selector; nil when it is not known.
	selector labels.Selector
	// trouble is what is wrong with one of its pods, and worst what was wrong last:
	// a container that crashes is ready now and then.
	trouble, worst string
	// lines are the last ones of the log that spoke last, and spoke is whose it is.
	lines []string
	spoke string
}

// called is what events call the target. The caller holds mu.
func (c *target) called() string {
	if c.last.Object != "" {
		return c.last.Object
	}
	return c.String()
}

// track notes that something is waited for, and what is told of it. It gives that
// text, with the trouble of the pods.
func (t *Reporter) track(to ref, r *runner.Report) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.targets[to]
	fresh := c == nil
	if fresh {
		c = &target{ref: to, at: time.Now()}
		if to.kind == pod && strings.ContainsAny(to.name, "=!, ") {
			c.selector, _ = labels.Parse(to.name) // what is none finds nothing
		}
		t.targets[to] = c
	}
	message := ""
	if r != nil {
		if r.Message != c.last.Message {
			c.at = time.Now()
		}
		c.last, message = *r, r.Message
		if c.trouble != "" && !tells(message, c.trouble) {
			message += "; " + c.trouble
		}
	}
	switch {
	case !fresh:
		return message
	case to.kind == job:
		t.activate(c)
	default:
		t.begin(func() { t.wait(c) })
	}
	return message
}

// forget notes that something is waited for no longer.
func (t *Reporter) forget(to ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.targets, to)
}

// wait looks at the pods of c once nothing has changed for a while.
func (t *Reporter) wait(c *target) {
	for left := patience; left > 0; {
		select {
		case <-time.After(left):
		case <-t.ctx.Done():
			return
		}
		t.mu.Lock()
		left = patience - time.Since(c.at)
		if left <= 0 && t.targets[c.ref] == c {
			t.activate(c)
		}
		t.mu.Unlock()
	}
}

// activateAll looks at the pods of all that is waited for, now.
func (t *Reporter) activateAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.targets {
		t.activate(c)
	}
}

// activate looks at the pods of c from now on. The caller holds mu.
func (t *Reporter) activate(c *target) {
	if c.active || t.closed {
		return
	}
	c.active = true
	t.open++
	s := t.watcher(c.namespace)
	t.begin(func() {
		defer t.settle()
		if c.kind == service {
			t.choose(c)
		}
		s.await(t.ctx)
		s.look(c)
	})
}

// choose reads which pods a Service selects.
func (t *Reporter) choose(c *target) {
	s, err := t.client.CoreV1().Services(c.namespace).Get(t.ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return // there is none, or it may not be read: that is told where it is waited for
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(s.Spec.Selector) > 0 {
		c.selector = labels.SelectorFromSet(s.Spec.Selector)
	}
}

// owns reports whether a pod is one of those that c waits for.
func (c *target) owns(p *corev1.Pod) bool {
	if p.Namespace != c.namespace {
		return false
	}
	if c.selector != nil {
		return c.selector.Matches(labels.Set(p.Labels))
	}
	if c.kind == pod {
		return p.Name == c.name
	}
	return stall.OwnedBy(p, string(c.kind), c.name)
}

// isAbout reports whether an event is about c or something that it makes; its pods
// excepted, which are known by their names.
func (c *target) isAbout(e *corev1.Event) bool {
	o := e.InvolvedObject
	switch {
	case o.Kind == string(c.kind) && o.Name == c.name:
		return true
	case c.kind == deployment && o.Kind == string(replicaSet):
		hash, ok := strings.CutPrefix(o.Name, c.name+"-")
		return ok && !strings.Contains(hash, "-")
	}
	return false
}

// ofJob reports whether a pod is a Job's.
func ofJob(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "Job" && owner.APIVersion == batchv1.SchemeGroupVersion.String()
}
