package webhook

import "strings"

// verdict is what a text of the API server says about a failed call.
type causeRule struct {
	text  string
	class Class
	// ambiguous: see [Fault.Ambiguous].
	ambiguous bool
}

// unreached are the texts of calls that got no HTTP answer: a cause with a URL
// (`Post "https://…": …`). The first that the cause contains wins. The
// wordings are those of recorded API servers (v1.36, v1.37), of their source, or
// of the named issues.
var unansweredCauses = []causeRule{
	// The Service, from k8s.io/apiserver pkg/util/proxy/proxy.go. Which text a
	// Service without ready addresses gives depends on the cluster: "no
	// endpoints" with --enable-aggregator-routing, else the ClusterIP is dialled
	// and refuses; Cilium refuses in words of its own
	// (VictoriaMetrics/helm-charts#2288). "endpoints … not found" is older.
	{"no endpoints available for service", Race, true},
	{"no service port ", Misconfigured, false},
	{"cannot route to service with ClusterIP", Misconfigured, false},
	{"unsupported service type", Misconfigured, false},
	{"operation not permitted", Race, true},

	// Certificates, from crypto/x509. An unknown authority is a race until the
	// injector of the CA bundle has run, or a stale bundle for ever; the text
	// of a stale one names a "candidate authority certificate" only if both CAs
	// have the same name. A certificate from the future is a matter of clocks.
	{"certificate signed by unknown authority", Race, true},
	{"certificate is valid for", Misconfigured, false},
	{"certificate is not valid for any names", Misconfigured, false},
	{"legacy Common Name field", Misconfigured, false},
	{"doesn't contain any IP SANs", Misconfigured, false},
	{" is before ", Race, false},
	{"certificate has expired or is not yet valid", Misconfigured, false},
	{"x509: ", Misconfigured, false},

	// TLS, from crypto/tls alert.go. A server answers "internal error" while it
	// has no certificate; the others ask for what an API server does not send.
	{"remote error: tls: bad certificate", Misconfigured, false},
	{"remote error: tls: certificate required", Misconfigured, false},
	{"remote error: tls: unknown certificate", Misconfigured, false},
	{"remote error: tls: protocol version not supported", Misconfigured, false},
	{"remote error: tls:", Race, false},
	{"TLS handshake timeout", Race, true},
	{"server gave HTTP response to HTTPS client", Misconfigured, false},
	{"first record does not look like a TLS handshake", Misconfigured, false},
	{"malformed HTTP", Misconfigured, false},

	// Ways to the node, of clusters whose API server is not in the pod network:
	// konnectivity (cert-manager#6457), and the egress proxies of k3s and AKS
	// (bitnami/charts#15094, mariadb-operator#1147, metallb#2089), which answer
	// 502 or 503 where a dial would be refused. EKS never lets its API server call an
	// address out of the VPC (kyverno#10699).
	{"No agent available", Race, true},
	{"proxy error from ", Race, true},
	{"Service Unavailable", Race, true},
	{"Bad Gateway", Race, true},
	{"Address is not allowed", Misconfigured, false},
	{"proxyconnect ", Misconfigured, false},

	// The network, from syscall and net.
	{"connection refused", Race, true},
	{"connection timed out", Race, true},
	{"no route to host", Race, true},
	{"host is down", Race, true},
	{"network is unreachable", Race, true},
	{"i/o timeout", Race, true},
	{"context deadline exceeded", Race, true},
	{"Client.Timeout exceeded", Race, true},
	{"no such host", Misconfigured, false},

	// A connection that was open: a process starts, ends, or is replaced.
	{"connection reset by peer", Race, false},
	{"broken pipe", Race, false},
	{"unexpected EOF", Race, false},
	{"http2: ", Race, false},
	{"stream error: ", Race, false},
	{"transport connection broken", Race, false},
	{"use of closed network connection", Race, false},
	{"context canceled", Race, false},
}

// answered are the texts of calls without a URL: the webhook answered, though
// not with a review, or the API server found nothing to call. What a webhook
// answers is its own text, so these count only at the cause's start.
var answeredCauses = []causeRule{
	// HTTP statuses, as k8s.io/apimachinery pkg/api/errors
	// NewGenericServerResponse words them. 404 is a path that is not served: by
	// an operator that starts, or of another version than the configuration
	// (VictoriaMetrics/operator#1403, external-secrets#4814).
	{"the server could not find the requested resource", Misconfigured, true},
	{"the server has received too many requests", Overloaded, false},
	{"an error on the server (", Overloaded, false},
	{"the server is currently unable to handle the request", Overloaded, false},
	{"the server was unable to return a response in the time allotted", Overloaded, false},

	// The configuration, from k8s.io/apiserver pkg/util/webhook/client.go. A
	// bundle that is not PEM is mostly the placeholder ("Cg==", a line feed) of
	// a chart whose injector has not run (kubevela#6919).
	{"could not get REST client: unable to load root certificates", Race, true},
	{"unable to load root certificates", Race, true},
}

// judge tells the class of a failed call's cause, and whether it is ambiguous.
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
		return causeRule{cause, Race, false}
	case isMissing(cause):
		return causeRule{cause, Race, true}
	}
	for _, v := range known {
		if matches(cause, v.text) {
			return v
		}
	}
	return causeRule{cause, Misconfigured, false}
}

// maxCause bounds, in bytes, how much of a cause is looked at.
const maxCause = 4 << 10

// isMissing recognises the Service, or the Endpoints of older API servers, that
// an API server does not know: not created yet, or seen late by its lister.
func isMissing(cause string) bool {
	return strings.HasSuffix(cause, " not found") &&
		(strings.HasPrefix(cause, `service "`) || strings.HasPrefix(cause, `endpoints "`))
}
