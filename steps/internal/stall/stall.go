// Package stall says why a workload or a claim does not get on, for reasons that
// waiting alone seldom mends: an image that cannot be pulled, a container that
// crashes, a quota, a node or a volume that nobody provides.
//
// It reads objects that it is given. It asks no cluster and keeps no time: whoever
// waits knows how long a stall has lasted, and whether that is longer than its grace.
package stall

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Class is the kind of a stall.
type Class string

// The classes of stalls.
const (
	// Name is an image name that nobody can read.
	Name Class = "image-name"
	// Never is an image that is not on the node, and must not be pulled.
	Never Class = "image-never"
	// Image is an image that is not where its name says.
	Image Class = "image"
	// Pull is an image that cannot be pulled for another reason: a registry
	// that wants a password, or does not answer.
	Pull Class = "pull"
	// Config is a container that cannot be made, or a volume that cannot be mounted:
	// mostly a Secret or ConfigMap is missing.
	Config Class = "config"
	// Crash is a container that ends again and again.
	Crash Class = "crash"
	// Start is a container whose program cannot be started.
	Start Class = "start"
	// Quota is pods that a quota has no room for.
	Quota Class = "quota"
	// Policy is pods that may not be made as they are: a limit, a policy or an
	// admission webhook forbids them.
	Policy Class = "policy"
	// Account is pods whose service account does not exist.
	Account Class = "service-account"
	// Schedule is a pod that no node takes.
	Schedule Class = "schedule"
	// Volume is a claim that no volume comes for.
	Volume Class = "volume"
)

// Limits say how long each class of stall is endured.
type Limits struct {
	// Grace is by class; one that it does not have is endured for ever.
	Grace map[Class]time.Duration
	// Restarts is how often a container must have been started anew, and Starts the
	// same for one whose program cannot be started at all.
	Restarts, Starts int32
}

// Default are the limits of a run.
//
// A service account may come, and nobody knows when: there is no limit for that.
//
// An operator that crashes until its CRDs or certificates are there comes up within
// the first restarts. What a Certificate or an ExternalSecret brings comes within minutes, and
// so does a node that an autoscaler adds.
var Default = Limits{
	Grace: map[Class]time.Duration{
		Name: 0, Never: 0, Image: time.Minute, Pull: 2 * time.Minute, Config: 3 * time.Minute, Crash: 2 * time.Minute,
		Start: 20 * time.Second, Quota: 2 * time.Minute, Policy: 2 * time.Minute, Schedule: 5 * time.Minute, Volume: 2 * time.Minute,
	},
	Restarts: 5, Starts: 3,
}

// Hooks are the limits of a hook of a chart: the release goes no further until it has
// ended, so that nothing of it will come meanwhile. What others bring may.
var Hooks = Limits{
	Grace: map[Class]time.Duration{
		Name: 0, Never: 0, Image: 30 * time.Second, Pull: 2 * time.Minute, Config: 2 * time.Minute, Crash: 2 * time.Minute,
		Start: 20 * time.Second, Quota: 2 * time.Minute, Policy: 5 * time.Second, Account: 10 * time.Second,
		Schedule: 5 * time.Minute, Volume: 2 * time.Minute,
	},
	Restarts: 5, Starts: 3,
}

// Stall is why something does not get on.
type Stall struct {
	Class Class
	// Reason says it in one clause, with what Kubernetes says.
	Reason string
	// Open says that the limit of restarts is not reached yet: the stall's time runs,
	// and it does not count.
	Open bool
}

// View is what is known of one namespace. It is not safe for concurrent use.
type View struct {
	// Limits are those of restarts; the graces are the caller's matter.
	Limits Limits
	// Restarts remembers for the whole run; nil is for this view alone.
	Restarts *Restarts
	// Began is when the wait did: older events do not count.
	Began time.Time

	pods   map[string]*corev1.Pod
	claims map[string]*corev1.PersistentVolumeClaim
	events map[string]*corev1.Event
	first  map[restart]int32 // the restarts at the first look of this view
}

// Kinds are those of the objects that a view takes.
var Kinds = []string{"Pod", "PersistentVolumeClaim", "Event"}

// Replace takes all objects of a kind.
func (v *View) Replace(kind string, all []*unstructured.Unstructured) {
	switch kind {
	case "Pod":
		v.pods = nil
	case "PersistentVolumeClaim":
		v.claims = nil
	case "Event":
		v.events = nil
	}
	for _, u := range all {
		v.Take(u, false)
	}
}

// Take takes an object that came, changed or went. Those of other kinds are left out.
func (v *View) Take(u *unstructured.Unstructured, deleted bool) {
	switch u.GetKind() {
	case "Pod":
		if p := take(&v.pods, u, deleted); p != nil {
			v.look(p)
		}
	case "PersistentVolumeClaim":
		take(&v.claims, u, deleted)
	case "Event":
		take(&v.events, u, deleted)
	}
}

// take puts an object into a map, or takes it out. One that cannot be read is left out.
func take[T any](into *map[string]*T, u *unstructured.Unstructured, deleted bool) *T {
	if deleted {
		delete(*into, u.GetName())
		return nil
	}
	o := new(T)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o) != nil {
		return nil
	}
	if *into == nil {
		*into = map[string]*T{}
	}
	(*into)[u.GetName()] = o
	return o
}

// Concerns reports whether objects of a kind may stall: they have pods, are pods, or
// claim a volume.
func Concerns(u *unstructured.Unstructured) bool {
	switch kind := u.GroupVersionKind(); kind.Group {
	case "":
		return kind.Kind == "Pod" || kind.Kind == "PersistentVolumeClaim" || kind.Kind == "ReplicationController"
	case "apps":
		return kind.Kind != "ControllerRevision"
	case "batch":
		return kind.Kind == "Job"
	}
	return false
}

// Of says why an object does not get on: one stall of each class, none if it seems to.
func (v *View) Of(u *unstructured.Unstructured) []Stall {
	var all []Stall
	switch u.GetKind() {
	case "PersistentVolumeClaim":
		if c := v.claims[u.GetName()]; c != nil && c.UID == u.GetUID() {
			all = v.claim(c)
		}
	default:
		all = v.creation(u)
		for _, name := range slices.Sorted(maps.Keys(v.pods)) {
			if p := v.pods[name]; owns(u, p) && p.DeletionTimestamp == nil {
				all = append(all, v.pod(p)...)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Stall) int {
		if a.Open != b.Open && a.Class == b.Class { // what counts comes before what may
			if a.Open {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Class, b.Class)
	})
	return slices.CompactFunc(all, func(a, b Stall) bool { return a.Class == b.Class })
}

// owns reports whether a pod is the object, or one of its own.
func owns(u *unstructured.Unstructured, p *corev1.Pod) bool {
	if u.GetKind() == "Pod" {
		return p.UID == u.GetUID()
	}
	return OwnedBy(p, u.GetKind(), u.GetName())
}

// warnings are those about an object that came during the wait, or a moment before.
func (v *View) warnings(uid types.UID, reasons ...string) []*corev1.Event {
	var found []*corev1.Event
	for _, e := range v.events {
		if e.InvolvedObject.UID == uid && slices.Contains(reasons, e.Reason) && EventTime(e).After(v.Began.Add(-time.Minute)) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Event) int { return EventTime(b).Compare(EventTime(a)) })
	return found
}

// EventTime is when an event last came.
func EventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
