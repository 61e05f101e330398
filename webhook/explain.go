package webhook

import (
	"slices"
	"strings"
	"sync"
)

// Explain says in words that take no knowledge of Kubernetes what a cause means:
// that of a [Fault], the reason of a [Reading], or any text that says why a pod
// does not run, as kubelet and the scheduler put it. It is one clause, without a
// final period, and "" when there is nothing to add. It does not say what to do:
// that depends on whose the object is.
func Explain(cause string) string {
	cause = cause[:min(len(cause), maxCause)]
	switch {
	case isMissing(cause), strings.HasPrefix(cause, "Service ") && strings.Contains(cause, " does not exist"):
		return noService
	case cause == "EOF":
		return closed
	}
	for _, e := range allExplanations() {
		if strings.Contains(cause, e.text) {
			return e.words
		}
	}
	return ""
}

// allExplanations returns everything that is explained, in the order to try.
var allExplanations = sync.OnceValue(func() []explanation {
	all := slices.Clone(explanations)
	for _, c := range slices.Concat(unansweredCauses, answeredCauses) {
		all = append(all, explanation{c.text, c.words})
	}
	return append(all, serverExplanations...)
})

// Explain says what the fault's cause means; see the function.
func (f Fault) Explain() string {
	if f.Kind == Definition {
		return "the API server does not serve this kind yet: its CustomResourceDefinition is missing, or was installed a moment ago"
	}
	s := Explain(f.Cause)
	if s == "" && f.Class == Misconfigured && f.URL == "" { // an answer that is no review
		return "something answered at the webhook's address, but not as a webhook does: another program may listen there"
	}
	return s
}

// Explain says what the reading's reason means; see the function.
func (r Reading) Explain() string {
	if r.State == Ready {
		return ""
	}
	return Explain(r.Reason)
}

const (
	noService   = "the Service that the call goes to was not made yet, or was deleted"
	noPod       = "the Service exists, but no pod behind it is ready to answer yet"
	nobody      = "the address exists, but nothing listens there yet: mostly the pod has just started"
	silent      = "no answer came in time: the program is busy or hangs, or the network drops what is sent to it"
	closed      = "the connection was closed before an answer came: the program starts, stops or crashes"
	unreachable = "the network knows no way to the address: the pod is gone or moved, or a firewall is in between"
	tunnel      = "the API server reaches pods through a tunnel or proxy, and that has no way to the pod yet"
	untrusted   = "the webhook's certificate is not of the authority that its configuration names: one of the two is newer; " + lateSecret
	otherName   = "the webhook's certificate is for another name than that of the Service which is called"
	expired     = "the certificate is no longer valid: nobody has renewed it"
	early       = "the certificate is not valid yet: the clocks of two machines differ, or it was made a moment ago"
	lateSecret  = "kubelet shows a pod a changed Secret up to two minutes late"
	noBundle    = "the API server does not know yet which certificates to trust for this webhook: the operator, or cert-manager, enters that while it starts"
	noTLS       = "something answers without encryption, where a webhook must speak HTTPS: the port may be that of another program"
	noImage     = "the node cannot fetch the container's image: its name or tag may be wrong, or the registry wants a password"
	crashing    = "the program in the container ends soon after each start, and Kubernetes waits longer before each new one; its log says why"
	unready     = "the program has started, but says itself that it is not ready yet"
	unfit       = "no node may run the pod as it is: the message says what each of them lacks"
)

// explanation is what a text means, wherever it stands in a cause.
type explanation struct{ text, words string }

// explanations are of readings. They are tried in this order, and before the causes: what is said of a pod explains more
// than that its Service has no endpoints.
var explanations = []explanation{
	// Pods: the reasons of kubelet (kubernetes/kubernetes pkg/kubelet/images/types.go,
	// kuberuntime/kuberuntime_container.go) and the scheduler, and the words of
	// Backing.unreadyReason.
	{"InvalidImageName", "the name of the container's image is not well formed"},
	{"ErrImageNeverPull", "the image is not on the node, and the pod forbids to fetch it (imagePullPolicy: Never)"},
	{"ImagePullBackOff", noImage},
	{"ErrImagePull", noImage},
	{"Failed to pull image", noImage},
	{"Back-off pulling image", noImage},
	{"could not be started", "the node could not start the program in the container: mostly its command is not in the image"},
	{"OOMKilled", "the container took more memory than its limit allows, and was ended for that"},
	{"CreateContainerConfigError", "the container cannot be made: mostly a ConfigMap, a Secret or a key of one that it names does not exist"},
	{"CreateContainerError", "the node could not make the container; the message says why"},
	{"RunContainerError", "the node could not start the program in the container: mostly its command is not in the image"},
	{"StartError", "the node could not start the program in the container: mostly its command is not in the image"},
	{"CrashLoopBackOff", crashing},
	{"Back-off restarting failed container", crashing},
	{"which it mounts, does not exist", "the pod waits for that Secret: mostly cert-manager or a Job of the chart makes it; kubelet sees it up to two minutes late"},
	{"FailedMount", "the node cannot prepare a volume of the pod: what it mounts may not exist yet; kubelet sees it up to two minutes late"},
	{"FailedCreatePodSandBox", "the node cannot prepare the pod's network"},
	{"Insufficient ", "no node has enough of that left for what the pod requests"},
	{"untolerated taint", "nodes are closed to the pod: they have taints that it does not tolerate"},
	{"cannot be scheduled", unfit},
	{"FailedScheduling", unfit},
	{"waits for its init container", "the pod prepares: its containers start when that one has ended"},
	{"is being created", "the node fetches the pod's image and prepares its volumes"},
	{"it last ended with", "the program ended and was started anew; it says itself that it is not ready yet"},
	{"that ended with", "a program of the pod has ended; Kubernetes starts it anew where the pod allows that"},
	{"has failed: container", "a program of the pod ended with an error; its log says why"},
	{"has ended as", "the pod is over: what made it must make another one"},
	{"is being deleted", "the pod goes away, for example because a new version takes its place"},
	{"and not yet an endpoint", "the pod is ready; Kubernetes is about to send calls to it"},
	{"NodeNotReady", "the node that the pod runs on does not answer"},
	{"is not ready", unready},
	{"Readiness probe failed", unready},
	{"Startup probe failed", unready},
	{"Liveness probe failed", "the program does not answer when Kubernetes asks whether it lives, and is started anew for that"},
	{"BackoffLimitExceeded", "the Job's pod failed as often as it may; its log says why"},
	{"ProgressDeadlineExceeded", "no new pod became ready in the time that the Deployment gives; why is at its pods"},
	{"DeadlineExceeded", "it did not end in the time that it was given"},
	{"exceeded quota", "the namespace's quota has no room for it"},
	{"Evicted", "the node was short of memory or disk, and ended the pod"},

	// What stands behind a Service, from k8s.io/apiserver pkg/util/proxy/proxy.go
	// and Backing.
	{"is scaled to 0", "it is told to run no pod, by somebody or by the chart's values: nothing answers until it is scaled up"},
	{"cannot make its pods", "its pods are refused; the message says by whom and why"},
	{"has made no pod yet", "its pods are about to be made"},
	{"no pod has the labels that the Service selects", "the Service leads nowhere yet: its pods were not made, or they have other labels than it looks for"},
	{"the Service selects no pods", "the Service leads only where somebody enters addresses by hand"},
	{"no endpoint has port", "the pods do not have the port that the Service leads to"},
	{" has no port ", "the Service exists, but not with the port that the webhook is called at"},
	{"no endpoints", noPod},
	{"endpoints ready", noPod},
	{"is headless", "the Service has no address of its own, and not every API server can call such a one"},
	{"an ExternalName", "the Service is only another name, and not every API server can call such a one"},

	// Certificates, in the words of checkBundle and Backing.certificate.
	{"the CA bundle is empty", noBundle},
	{"the CA bundle holds no certificate", "what is entered as the webhook's authority is no certificate, so no call can be trusted"},
	{"the CA bundle expired", expired},
	{"is not valid before", early},
	{" expired at ", expired},
	{"not of an authority in the CA bundle", untrusted},
	{"is not for its name", otherName},
	{"is not accepted: ", "the webhook's certificate is not accepted"},
}

// serverExplanations are of the API server itself. They are tried last.
var serverExplanations = []explanation{
	{notReady, "the API server has just started, and reads first what it needs to check requests"},
	{overBudget, "the API server did not finish the request in its time: it has too much to do, or a webhook is slow"},
	{"the API server starts or stops", "it is restarted or updated; requests work again when that is over"},
}
