// Package proxy is the hold for any client: a server on a loopback address that
// stands in front of API servers, and keeps requests that a webhook could not
// judge until it can (package hold). Whatever speaks to Kubernetes through a
// kubeconfig can be pointed at it:
//
//	h, err := proxy.NewHandler(config, proxy.Options{Gate: gate})
//	s, err := proxy.Listen("127.0.0.1:0")
//	url := s.Handle("/c0", h) // for a kubeconfig, beside s.CA() and s.Token()
//	go s.Serve()
//	defer s.Close()
//
// Everything but what is held passes unchanged: watches, logs, exec and
// port-forward, bodies of any size, in whatever encoding and compression the client
// asked for. Credentials are the proxy's own; the client shows a token that
// was made for this server.
//
// It does not store anything, does not answer in the API server's place but for a
// request that was held in vain, and listens at no address but loopback.
package proxy
