package webhook

import "strings"

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
	for _, e := range explanations {
		if strings.Contains(cause, e.text) {
			return e.words
		}
	}
	return ""
}

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

// explanations are tried in this order: what is said of a pod explains more than
// that its Service has no endpoints, and a certificate's date more than that it
// was not accepted.
var explanations = []struct{ text, words string }{
	// Pods: the reasons of kubelet (kubernetes/kubernetes pkg/kubelet/images/types.go,
	// kuberuntime/kuberuntime_container.go) and the scheduler, and the words of
	// Backing.explain.
	{"InvalidImageName", "the name of the container's image is not well formed"},
	{"ErrImageNeverPull", "the image is not on the node, and the pod forbids to fetch it (imagePullPolicy: Never)"},
	{"ImagePullBackOff", noImage},
	{"ErrImagePull", noImage},
	{"Failed to pull image", noImage},
	{"Back-off pulling image", noImage},
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
	{"no service port ", "the Service exists, but not with the port that the webhook is called at"},
	{" has no port ", "the Service exists, but not with the port that the webhook is called at"},
	{"no endpoints", noPod},
	{"endpoints ready", noPod},
	{"cannot route to service with ClusterIP", "the Service has no address of its own, and this API server can only call those that have one"},
	{"is headless", "the Service has no address of its own, and not every API server can call such a one"},
	{"unsupported service type", "the Service is only another name (ExternalName), and this API server cannot call it"},
	{"ExternalName", "the Service is only another name, and not every API server can call such a one"},

	// Certificates, from crypto/x509, and the words of judgeBundle and
	// Backing.certificate.
	{"the CA bundle is empty", noBundle},
	{"the CA bundle holds no certificate", "what is entered as the webhook's authority is no certificate, so no call can be trusted"},
	{"unable to load root certificates", noBundle},
	{"the CA bundle expired", expired},
	{"is not valid before", early},
	{" expired at ", expired},
	{" is before ", early},
	{"certificate has expired or is not yet valid", expired},
	{"signed by unknown authority", untrusted},
	{"not of an authority in the CA bundle", untrusted},
	{"is not for its name", otherName},
	{"certificate is valid for", otherName},
	{"certificate is not valid for any names", otherName},
	{"legacy Common Name field", "the webhook's certificate names its host in an old way that is not accepted any more"},
	{"doesn't contain any IP SANs", otherName},
	{"x509: ", "the webhook's certificate is not accepted"},
	{"is not accepted: ", "the webhook's certificate is not accepted"},

	// TLS, from crypto/tls alert.go.
	{"remote error: tls: bad certificate", "the webhook wants a certificate of the API server, which does not send one"},
	{"remote error: tls: certificate required", "the webhook wants a certificate of the API server, which does not send one"},
	{"remote error: tls: unknown certificate", "the webhook does not accept the API server's certificate"},
	{"remote error: tls: protocol version not supported", "the webhook speaks only versions of TLS that the API server does not"},
	{"remote error: tls:", "the program listens, but has no certificate to answer with yet; " + lateSecret},
	{"TLS handshake timeout", silent},
	{"server gave HTTP response to HTTPS client", noTLS},
	{"first record does not look like a TLS handshake", noTLS},
	{"malformed HTTP", "what answers at the webhook's address does not speak HTTP: the port may be that of another program"},

	// Ways to the node.
	{"No agent available", tunnel},
	{"proxy error from ", tunnel},
	{"proxyconnect ", tunnel},
	{"Service Unavailable", tunnel},
	{"Bad Gateway", tunnel},
	{"Address is not allowed", "the API server may not call addresses out of its own network: the webhook's pod must use the node's (hostNetwork)"},

	// The network, from syscall and net.
	{"connection refused", nobody},
	{"operation not permitted", noPod}, // Cilium's word for a Service without endpoints
	{"connection timed out", silent},
	{"i/o timeout", silent},
	{"context deadline exceeded", silent},
	{"Client.Timeout exceeded", silent},
	{"no route to host", unreachable},
	{"host is down", unreachable},
	{"network is unreachable", unreachable},
	{"no such host", "the name of the webhook's server is not known to DNS"},
	{"connection reset by peer", closed},
	{"broken pipe", closed},
	{"unexpected EOF", closed},
	{"http2: ", closed},
	{"stream error: ", closed},
	{"transport connection broken", closed},
	{"use of closed network connection", closed},
	{"context canceled", "the call was given up, mostly because the request that it was for was"},

	// HTTP statuses, as k8s.io/apimachinery pkg/api/errors words them.
	{"the server could not find the requested resource", "something answers at the webhook's address and does not know the path: an older or newer version runs, or it is still starting"},
	{"the server has received too many requests", "the webhook has more to do than it can, and asks to come back later"},
	{"an error on the server (", "the webhook was called and failed within; its log says why"},
	{"the server is currently unable to handle the request", "the webhook answers that it cannot serve yet, as programs do that start or stop"},
	{"the server was unable to return a response in the time allotted", "the webhook, or what it asks itself, took too long"},
	{"the server rejected our request for an unknown reason", "something answers at the webhook's address and does not understand the call: another program may listen there"},
	{"the server has asked for the client to provide credentials", "the webhook wants the API server to log in, and it has no credentials for it"},
	{"the server does not allow this method", "something answers at the webhook's address that is no webhook: another program may listen there"},
	{"the server rejected our request due to an error in our request", "something answers at the webhook's address and does not understand the call: the webhook may be of another version"},
	{"couldn't get version/kind; json parse error", "something answers at the webhook's address, but not as a webhook does: another program may listen there"},

	// The API server itself.
	{notReady, "the API server has just started, and reads first what it needs to check requests"},
	{overBudget, "the API server did not finish the request in its time: it has too much to do, or a webhook is slow"},
	{"the API server starts or stops", "it is restarted or updated; requests work again when that is over"},
}
