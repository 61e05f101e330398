package webhook

import "strings"

// causeRule is what a text of the API server says about a failed call.
type causeRule struct {
	text  string
	class Class
	// ambiguous: see [Fault.Ambiguous].
	ambiguous bool
	// words: see [Explain].
	words string
}

// unansweredCauses are the texts of calls that got no HTTP answer: a cause with a URL
// (`Post "https://…": …`). The first that the cause contains wins. The
// wordings are those of recorded API servers (v1.36, v1.37), of their source, or
// of the named issues.
var unansweredCauses = []causeRule{
	// The Service, from k8s.io/apiserver pkg/util/proxy/proxy.go. Which text a
	// Service without ready addresses gives depends on the cluster: "no
	// endpoints" with --enable-aggregator-routing, else the ClusterIP is dialled
	// and refuses; Cilium refuses in words of its own
	// (VictoriaMetrics/helm-charts#2288). "endpoints … not found" is older.
	{"no endpoints available for service", Race, true, noPod},
	{"no service port ", Misconfigured, false, "the Service exists, but not with the port that the webhook is called at"},
	{"cannot route to service with ClusterIP", Misconfigured, false, "the Service has no address of its own, and this API server can only call those that have one"},
	{"unsupported service type", Misconfigured, false, "the Service is only another name (ExternalName), and this API server cannot call it"},
	{"operation not permitted", Race, true, noPod},

	// Certificates, from crypto/x509. An unknown authority is a race until the
	// injector of the CA bundle has run, or a stale bundle for ever; the text
	// of a stale one names a "candidate authority certificate" only if both CAs
	// have the same name. A certificate from the future is a matter of clocks.
	{"certificate signed by unknown authority", Race, true, untrusted},
	{"certificate is valid for", Misconfigured, false, otherName},
	{"certificate is not valid for any names", Misconfigured, false, otherName},
	{"legacy Common Name field", Misconfigured, false, "the webhook's certificate names its host in an old way that is not accepted any more"},
	{"doesn't contain any IP SANs", Misconfigured, false, otherName},
	{" is before ", Race, false, early},
	{"certificate has expired or is not yet valid", Misconfigured, false, expired},
	{"x509: ", Misconfigured, false, "the webhook's certificate is not accepted"},

	// TLS, from crypto/tls alert.go. A server answers "internal error" while it
	// has no certificate; the others ask for what an API server does not send.
	{"remote error: tls: bad certificate", Misconfigured, false, "the webhook wants a certificate of the API server, which does not send one"},
	{"remote error: tls: certificate required", Misconfigured, false, "the webhook wants a certificate of the API server, which does not send one"},
	{"remote error: tls: unknown certificate", Misconfigured, false, "the webhook does not accept the API server's certificate"},
	{"remote error: tls: protocol version not supported", Misconfigured, false, "the webhook speaks only versions of TLS that the API server does not"},
	{"remote error: tls:", Race, false, "the program listens, but has no certificate to answer with yet; " + lateSecret},
	{"TLS handshake timeout", Race, true, silent},
	{"server gave HTTP response to HTTPS client", Misconfigured, false, noTLS},
	{"first record does not look like a TLS handshake", Misconfigured, false, noTLS},
	{"malformed HTTP", Misconfigured, false, "what answers at the webhook's address does not speak HTTP: the port may be that of another program"},

	// Ways to the node, of clusters whose API server is not in the pod network:
	// konnectivity (cert-manager#6457), and the egress proxies of k3s and AKS
	// (bitnami/charts#15094, mariadb-operator#1147, metallb#2089), which answer
	// 502 or 503 where a dial would be refused. EKS never lets its API server call an
	// address out of the VPC (kyverno#10699).
	{"No agent available", Race, true, tunnel},
	{"proxy error from ", Race, true, tunnel},
	{"Service Unavailable", Race, true, tunnel},
	{"Bad Gateway", Race, true, tunnel},
	{"Address is not allowed", Misconfigured, false, "the API server may not call addresses out of its own network: the webhook's pod must use the node's (hostNetwork)"},
	{"proxyconnect ", Misconfigured, false, tunnel},

	// The network, from syscall and net.
	{"connection refused", Race, true, nobody},
	{"connection timed out", Race, true, silent},
	{"no route to host", Race, true, unreachable},
	{"host is down", Race, true, unreachable},
	{"network is unreachable", Race, true, unreachable},
	{"i/o timeout", Race, true, silent},
	{"context deadline exceeded", Race, true, silent},
	{"Client.Timeout exceeded", Race, true, silent},
	{"no such host", Misconfigured, false, "the name of the webhook's server is not known to DNS"},

	// A connection that was open: a process starts, ends, or is replaced.
	{"connection reset by peer", Race, false, closed},
	{"broken pipe", Race, false, closed},
	{"unexpected EOF", Race, false, closed},
	{"http2: ", Race, false, closed},
	{"stream error: ", Race, false, closed},
	{"transport connection broken", Race, false, closed},
	{"use of closed network connection", Race, false, closed},
	{"context canceled", Race, false, "the call was given up, mostly because the request that it was for was"},
}

// answeredCauses are the texts of calls without a URL: the webhook answered, though
// not with a review, or the API server found nothing to call. What a webhook
// answers is its own text, so these count only at the cause's start.
var answeredCauses = []causeRule{
	// HTTP statuses, as k8s.io/apimachinery pkg/api/errors
	// NewGenericServerResponse words them. 404 is a path that is not served: by
	// an operator that starts, or of another version than the configuration
	// (VictoriaMetrics/operator#1403, external-secrets#4814).
	{"the server could not find the requested resource", Misconfigured, true, "something answers at the webhook's address and does not know the path: an older or newer version runs, or it is still starting"},
	{"the server has received too many requests", Overloaded, false, "the webhook has more to do than it can, and asks to come back later"},
	{"an error on the server (", Overloaded, false, "the webhook was called and failed within; its log says why"},
	{"the server is currently unable to handle the request", Overloaded, false, "the webhook answers that it cannot serve yet, as programs do that start or stop"},
	{"the server was unable to return a response in the time allotted", Overloaded, false, "the webhook, or what it asks itself, took too long"},
	// The same: answers of something that is no webhook, or of another version.
	{"the server rejected our request for an unknown reason", Misconfigured, false, "something answers at the webhook's address and does not understand the call: another program may listen there"},
	{"the server has asked for the client to provide credentials", Misconfigured, false, "the webhook wants the API server to log in, and it has no credentials for it"},
	{"the server does not allow this method", Misconfigured, false, "something answers at the webhook's address that is no webhook: another program may listen there"},
	{"the server rejected our request due to an error in our request", Misconfigured, false, "something answers at the webhook's address and does not understand the call: the webhook may be of another version"},
	{"couldn't get version/kind; json parse error", Misconfigured, false, "something answers at the webhook's address, but not as a webhook does: another program may listen there"},

	// The configuration, from k8s.io/apiserver pkg/util/webhook/client.go. A
	// bundle that is not PEM is mostly the placeholder ("Cg==", a line feed) of
	// a chart whose injector has not run (kubevela#6919).
	{"could not get REST client: unable to load root certificates", Race, true, noBundle},
	{"unable to load root certificates", Race, true, noBundle},
}

// classifyCause returns the class of a failed call's cause, and whether it is ambiguous.
// A cause that is not known is taken for a misconfiguration: it is held for the
// short grace, not for long.
func classifyCause(cause string, reached bool) causeRule {
	// What decides stands at the start, however long the rest is.
	cause = cause[:min(len(cause), maxCause)]
	known := unansweredCauses
	matches := strings.Contains
	switch {
	case reached:
		known, matches = answeredCauses, strings.HasPrefix
	case cause == "EOF":
		return causeRule{text: cause, class: Race}
	case isMissing(cause):
		return causeRule{text: cause, class: Race, ambiguous: true}
	}
	for _, v := range known {
		if matches(cause, v.text) {
			return v
		}
	}
	return causeRule{text: cause, class: Misconfigured}
}

// maxCause bounds, in bytes, how much of a cause is looked at.
const maxCause = 4 << 10

// isMissing recognises the Service, or the Endpoints of older API servers, that
// an API server does not know: not created yet, or seen late by its lister.
func isMissing(cause string) bool {
	return strings.HasSuffix(cause, " not found") &&
		(strings.HasPrefix(cause, `service "`) || strings.HasPrefix(cause, `endpoints "`))
}
