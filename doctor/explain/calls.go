package explain

// call is what the cause of a webhook call that failed means for whoever looks into it.
type call struct {
	id string
	// answered: something answered, or nothing was called; such a cause has no URL.
	answered bool
	// texts are the causes, in the words of webhook's tables; one of them is in the cause.
	texts        []string
	causes, next []string
}

// calls are looked through in order; the first one counts. The texts are those of
// webhook/cause.go, which has their sources.
var calls = []call{
	{
		id:    "port",
		texts: []string{"no service port "},
		causes: []string{
			"the webhook configuration and the Service name different ports: they are of different versions of the chart",
		},
		next: []string{"kubectl get service {service} -n {namespace} -o yaml"},
	},
	{
		id:    "no-address",
		texts: []string{"cannot route to service with ClusterIP", "unsupported service type"},
		causes: []string{
			"the Service is headless or an ExternalName, and this API server calls only Services with an address of their own",
		},
		next: []string{"kubectl get service {service} -n {namespace} -o yaml"},
	},
	{
		id:    "untrusted",
		texts: []string{"certificate signed by unknown authority"},
		causes: []string{
			"the CA bundle is entered a moment after the install, by cert-manager, the operator or a Job of the chart, and was not yet",
			"the certificate was made anew, and the pod still has the old one: kubelet shows it a changed Secret up to two minutes late",
			"the webhook configuration is an old one, of a release or namespace that is gone",
		},
		next: []string{"kplan webhooks {webhook} -o wide", "kubectl get certificates,secrets -n {namespace}"},
	},
	{
		id: "no-bundle", answered: true,
		texts: []string{"unable to load root certificates", "could not get REST client: unable to load root certificates"},
		causes: []string{
			"the CA bundle is entered a moment after the install, by cert-manager, the operator or a Job of the chart, and was not yet",
			"what should enter it does not run, or has no right to",
		},
		next: []string{"kplan webhooks {webhook} -o wide"},
	},
	{
		id:    "certificate",
		texts: []string{"x509: ", "remote error: tls: "},
		causes: []string{
			"the certificate is for another name, or no longer valid: nobody has made a new one since the Service was renamed, or in time",
			"the pod started before its certificate was there, or serves an old one: it reads it anew late, or when it restarts",
			"the clocks of two machines differ",
		},
		next: []string{"kplan webhooks {webhook} -o wide", "kubectl get certificates,secrets -n {namespace}"},
	},
	{
		id:    "not-tls",
		texts: []string{"server gave HTTP response", "first record does not look like", "malformed HTTP"},
		causes: []string{
			"the Service leads to a port of the pod that is not the webhook's",
			"the operator runs with its webhooks switched off",
		},
		next: []string{"kubectl get service,endpointslices -n {namespace} -o yaml"},
	},
	{
		id:    "tunnel",
		texts: []string{"No agent available", "proxy error from ", "Service Unavailable", "Bad Gateway", "proxyconnect "},
		causes: []string{
			"the pod is not ready yet, and the proxy between the API server and the nodes says so in words of its own",
			"the agents of that proxy (konnectivity, the tunnel of k3s or AKS) do not run",
			"a firewall keeps the API server's network from the webhook's port",
		},
		next: []string{"kplan webhooks {webhook}", "kubectl get pods -n kube-system"},
	},
	{
		id:    "out-of-network",
		texts: []string{"Address is not allowed"},
		causes: []string{
			"the API server is not in the network of the pods: the webhook's pod must run with hostNetwork, on a port that is free",
		},
		next: []string{"kubectl get pods -n {namespace} -o wide"},
	},
	{
		id:    "unreachable",
		texts: []string{"connection refused", "no endpoints available", "operation not permitted"},
		causes: []string{
			"the webhook's pod is starting: its image is fetched, or it waits for its certificate",
			"the pod cannot start, or crashes",
			"the webhook is stale: its operator is scaled to 0, or gone",
			"the pod has just become ready, and the node of the API server does not know it yet",
		},
		next: []string{"kplan webhooks {webhook}", "kplan wait webhook --service {namespace}/{service}"},
	},
	{
		id:    "no-service",
		texts: []string{`service "`, `endpoints "`},
		causes: []string{
			"the Service comes with the same install, and was not made yet",
			"the webhook configuration was left behind by a release that is gone",
			"the webhook configuration names a Service or namespace that is wrong",
		},
		next: []string{"kplan webhooks {webhook}", "kubectl get service {service} -n {namespace}"},
	},
	{
		id: "no-answer",
		texts: []string{
			"i/o timeout", "context deadline exceeded", "Client.Timeout exceeded", "TLS handshake timeout", "connection timed out",
			"no route to host", "host is down", "network is unreachable", "request canceled",
		},
		causes: []string{
			"a firewall or a NetworkPolicy drops what the API server sends to the webhook's port: on private clusters only some ports are open",
			"the pod is gone or moved, and the network does not know it yet",
			"the webhook has too much to do, or waits for something itself",
		},
		next: []string{"kplan webhooks {webhook}", "kubectl get networkpolicies,pods -n {namespace} -o wide"},
	},
	{
		id: "closed",
		texts: []string{
			"EOF", "connection reset by peer", "broken pipe", "http2: ", "stream error: ", "transport connection broken", "closed network connection",
			"context canceled",
		},
		causes: []string{
			"the webhook's process starts, stops or is replaced",
			"it crashes on this request: its log says so",
			"something between closes the connection, such as a proxy or a mesh's sidecar",
		},
		next: []string{"kplan webhooks {webhook}", "kubectl get pods -n {namespace}"},
	},
	{
		id: "path", answered: true,
		texts: []string{"the server could not find the requested resource"},
		causes: []string{
			"the webhook configuration and the running operator are of different versions: the path is not served",
			"the operator is still starting, or runs with this webhook switched off",
		},
		next: []string{"kplan webhooks {webhook} -o wide"},
	},
	{
		id: "failing", answered: true,
		texts: []string{
			"an error on the server (", "too many requests", "currently unable to handle the request", "unable to return a response in the time",
		},
		causes: []string{
			"the webhook's program met an error, or has more to do than it can: its log says which",
		},
		next: []string{"kplan webhooks {webhook}"},
	},
	{
		id:     "name",
		texts:  []string{"no such host"},
		causes: []string{"the host of the webhook's URL is wrong, or the API server's DNS does not know it"},
		next:   []string{"kplan webhooks {webhook} -o wide"},
	},
}

// otherCall is for all that is in no table.
var otherCall = call{
	id: "answer", causes: []string{
		"something else than this webhook listens at the address: another program, or another version",
	},
	next: []string{"kplan webhooks {webhook} -o wide"},
}
