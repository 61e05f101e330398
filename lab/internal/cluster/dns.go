package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/lab/internal/node"
)

const dnsImage = "kplan.dev/lab/coredns:1"

// dnsObjects has DOMAIN, ADDRESS and IMAGE to be filled in.
//
//go:embed dns.yaml
var dnsObjects string

// applyDNS creates the cluster's DNS server.
func applyDNS(ctx context.Context, client client) error {
	filled := strings.NewReplacer("DOMAIN", node.Domain, "ADDRESS", node.ServiceDNS, "IMAGE", dnsImage).Replace(dnsObjects)
	for _, object := range strings.Split(filled, "\n---\n# ")[1:] {
		path, text, _ := strings.Cut(object, "\n")
		if err := client.apply(ctx, path, []byte(text)); err != nil {
			return fmt.Errorf("cluster DNS: %w", err)
		}
	}
	return nil
}
