package webhook

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// Backing is what was read of the Service that a webhook is called at, and of
// what stands behind it.
type Backing struct {
	// Service is nil when it does not exist.
	Service *corev1.Service
	// Slices are the EndpointSlices of the Service.
	Slices []*discoveryv1.EndpointSlice
	// Pods are those that the Service selects.
	Pods []*corev1.Pod
	// Workloads are what is to make pods that the Service selects; they are read
	// while there are none.
	Workloads []Workload
	// Certificates are those that the pods mount.
	Certificates []Certificate
	// Absent are the names of Secrets that the pods mount and that do not
	// exist: a pod's containers are not created without them.
	MissingSecrets []string
	// Unread says why a resource could not be read, e.g. because it is
	// forbidden; the keys are Services, EndpointSlices, Pods and Secrets.
	Unread map[string]string
}

// Workload is a Deployment or StatefulSet.
type Workload struct {
	Object
	// Replicas is how many pods it is to make.
	Replicas int32
	// Failure is why it cannot make them, in Kubernetes' words; "" when it can.
	Failure string
}

// The resources that a Backing is read from.
const (
	Services       = "services"
	EndpointSlices = "endpointslices"
	Pods           = "pods"
	Secrets        = "secrets"
)

// unread says why a resource could not be read. Nothing is known of a nil Backing.
func (b *Backing) unread(resource string) string {
	if b == nil {
		return ""
	}
	return b.Unread[resource]
}

// endpointCount counts the addresses behind one port of a Service.
type endpointCount struct {
	ready, serving, all int
	// elsewhere are those that have other ports only.
	elsewhere int
}

// String returns for example "1 of 2 endpoints ready".
func (c endpointCount) String() string {
	switch {
	case c.all == 0:
		return "no endpoints"
	case c.serving > c.ready: // some are about to go and still answer
		return fmt.Sprintf("%d of %d endpoints ready, %d ending and still serving", c.ready, c.all, c.serving-c.ready)
	}
	return fmt.Sprintf("%d of %d endpoints ready", c.ready, c.all)
}

// endpoints counts the addresses. No condition counts as true, and serving
// without one as ready (k8s.io/api discovery/v1, EndpointConditions). The ports
// of a slice are joined with those of the Service by their names: a slice lacks
// a port whose targetPort no container has.
func (b *Backing) endpoints(port int32) endpointCount {
	var n endpointCount
	for _, s := range b.Slices {
		for _, e := range s.Endpoints {
			if !b.routesTo(port, s) {
				n.elsewhere += len(e.Addresses)
				continue
			}
			ready := ptr.Deref(e.Conditions.Ready, true)
			serving := ptr.Deref(e.Conditions.Serving, ready)
			n.all += len(e.Addresses)
			if ready {
				n.ready += len(e.Addresses)
			}
			if serving || ready { // a Service may publish addresses that are not ready
				n.serving += len(e.Addresses)
			}
		}
	}
	return n
}

// routesTo reports whether a port of the Service leads to the endpoints of a slice.
// Nothing speaks against it when the Service is not known to have that port.
func (b *Backing) routesTo(port int32, s *discoveryv1.EndpointSlice) bool {
	p := b.port(port)
	return p == nil || slices.ContainsFunc(s.Ports, func(q discoveryv1.EndpointPort) bool { return ptr.Deref(q.Name, "") == p.Name })
}

// port is the Service's port of a number, nil when there is none.
func (b *Backing) port(number int32) *corev1.ServicePort {
	if b.Service == nil {
		return nil
	}
	for i, p := range b.Service.Spec.Ports {
		if p.Port == number {
			return &b.Service.Spec.Ports[i]
		}
	}
	return nil
}

// ports are the numbers of the Service's ports, for people.
func (b *Backing) ports() string {
	var numbers []string
	for _, p := range b.Service.Spec.Ports {
		numbers = append(numbers, strconv.Itoa(int(p.Port)))
	}
	return strings.Join(numbers, " and ")
}

// rollingOut reports whether pods behind the Service come or go.
func (b *Backing) rollingOut() bool {
	return slices.ContainsFunc(b.Pods, func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil || !podReady(p)
	})
}

// readySince is when the first of the ready pods became so; zero without any.
func (b *Backing) readySince() time.Time {
	var first time.Time
	for _, p := range b.Pods {
		if at := readyTransition(p); podReady(p) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// unreadyReason says why there is no ready endpoint, which object that was read from and
// since when it is so: the trouble of the pod that has the gravest one, or why there
// is no pod. The object is empty where that is the Service.
func (b *Backing) unreadyReason() (why string, from Object, since time.Time) {
	switch {
	case b.unread(Pods) != "":
		return b.unread(Pods), from, since
	case b.Service == nil:
		return "", from, since
	case len(b.Service.Spec.Selector) == 0:
		return "the Service selects no pods", from, since
	case len(b.Pods) == 0:
		why, from = b.noPodReason()
		return why, from, since
	}
	pod := b.worstPod()
	from = Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
	return "pod " + pod.Name + " " + b.podProblem(pod).text, from, readyTransition(pod)
}

// noPodReason says why there is no pod.
func (b *Backing) noPodReason() (why string, from Object) {
	for _, m := range b.Workloads {
		switch {
		case m.Failure != "":
			return because(m.Kind+" "+m.Name+" cannot make its pods", m.Failure), m.Object
		case m.Replicas == 0:
			return m.Kind + " " + m.Name + " is scaled to 0", m.Object
		default:
			why, from = m.Kind+" "+m.Name+" has made no pod yet", m.Object
		}
	}
	return cmp.Or(why, "no pod has the labels that the Service selects"), from
}

// worstPod is the pod that explains most.
func (b *Backing) worstPod() *corev1.Pod {
	return slices.MaxFunc(b.Pods, func(p, q *corev1.Pod) int {
		return cmp.Compare(b.podProblem(p).severity, b.podProblem(q).severity)
	})
}

// PodProblem says why pods are not ready, by the one that has the gravest trouble:
// pod web-1 is in ImagePullBackOff, image "web:v2": not found. It is "" without pods.
func PodProblem(pods []*corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	b := &Backing{Pods: pods}
	pod := b.worstPod()
	return "pod " + pod.Name + " " + b.podProblem(pod).text
}

// ContainerProblem says why a container keeps its pod from being ready, in the words of
// PodProblem; what is wrong with the pod if there is nothing wrong with the container.
func ContainerProblem(p *corev1.Pod, c corev1.ContainerStatus) string {
	b := &Backing{Pods: []*corev1.Pod{p}}
	if problem := b.containerProblem(p, c); problem.text != "" {
		return "pod " + p.Name + " " + problem.text
	}
	return PodProblem(b.Pods)
}
