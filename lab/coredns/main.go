// Command coredns is the lab's cluster DNS server: CoreDNS with only the
// plugins that a cluster without a way out needs. It is a module of its own,
// so that CoreDNS's dependencies never move those of Kubernetes.
//
// It forwards nothing: names outside the cluster do not resolve.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
)

func init() {
	// CoreDNS's own list (core/dnsserver/zdirectives.go) in its own order,
	// less what is not linked here.
	dnsserver.Directives = []string{
		"health", "ready", "errors", "log", "cache", "loadbalance", "kubernetes",
	}
}

func main() {
	coremain.Run()
}
