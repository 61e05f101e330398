package webhook

import "strings"

// causes maps what the API server says of a failed call to a class, first match
// wins. Each text was seen from a real API server (v1.36 and v1.37) or stands
// in its source; the tests run over the recorded ones.
var causes = []struct {
	text  string
	class Class
}{
	// The Service, from k8s.io/apiserver pkg/util/proxy/proxy.go and
	// k8s.io/kube-aggregator pkg/apiserver/resolvers.go.
	{"no service port ", Misconfigured},
	{"cannot route to service with ClusterIP", Misconfigured},
	{"unsupported service type", Misconfigured},
	{"no endpoints available for service", Race},

	// TLS, from crypto/x509 and crypto/tls. An unknown authority is a race
	// until the injector of the CA bundle has run; so is a certificate from the
	// future, which is a matter of clocks.
	{"is before ", Race},
	{"certificate has expired or is not yet valid", Misconfigured},
	{"certificate is valid for", Misconfigured},
	{"certificate is not valid for any names", Misconfigured},
	{"legacy Common Name field", Misconfigured},
	{"certificate signed by unknown authority", Race},
	{"remote error: tls:", Race},
	{"TLS handshake timeout", Race},
	{"unable to load root certificates", Misconfigured},
	{"server gave HTTP response to HTTPS client", Misconfigured},

	// The network. "operation not permitted" is Cilium's refusal of a Service
	// without endpoints (VictoriaMetrics/helm-charts#2288).
	{"connection refused", Race},
	{"operation not permitted", Race},
	{"connection reset by peer", Race},
	{"no route to host", Race},
	{"network is unreachable", Race},
	{"i/o timeout", Race},
	{"broken pipe", Race},
	{"http2: client connection lost", Race},
	{"context deadline exceeded", Race},
	{"Client.Timeout exceeded", Race},
	{"no such host", Misconfigured},

	// HTTP statuses of the webhook, as k8s.io/apimachinery
	// pkg/api/errors.NewGenericServerResponse words them.
	{"the server could not find the requested resource", Misconfigured},
	{"the server has received too many requests", Overloaded},
	{"an error on the server (", Overloaded},
	{"the server is currently unable to handle the request", Overloaded},
	{"the server was unable to return a response in the time allotted", Overloaded},
	{"the server rejected our request", Misconfigured},
	{"the server has asked for the client to provide credentials", Misconfigured},
	{"the server does not allow this method", Misconfigured},

	// An answer that is none, from
	// k8s.io/apiserver pkg/admission/plugin/webhook/request/admissionreview.go.
	{"couldn't get version/kind", Misconfigured},
	{"received invalid webhook response", Misconfigured},
	{"returned invalid converted object", Misconfigured},
}

// classOf judges the cause of a failed call. A cause which is not known is
// taken for a misconfiguration: it is held for the short grace, not for long.
func classOf(cause string) Class {
	// Exactly so: `service "x" not found` must not match other texts that end alike.
	if strings.HasPrefix(cause, "service ") && strings.HasSuffix(cause, " not found") {
		return Race
	}
	if cause == "EOF" || strings.HasSuffix(cause, "unexpected EOF") {
		return Race
	}
	for _, c := range causes {
		if strings.Contains(cause, c.text) {
			return c.class
		}
	}
	return Misconfigured
}
