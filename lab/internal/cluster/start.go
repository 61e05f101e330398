package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"strings"

	"github.com/kplan-dev/kplan/lab/internal/netns"
	"github.com/kplan-dev/kplan/lab/internal/node"
)

// starter starts what follows the API server, control plane and node side by side, and
// waits until each is ready.
type starter struct {
	*launcher
	client   client
	programs programs
	say      Progress
	answers  chan struct{} // closed by controlPlane when the API server answers
}

// controlPlane starts the clients of the API server when that answers, and waits
// for what they make.
func (s starter) controlPlane(ctx context.Context) error {
	if err := s.client.await(ctx, "API server", "/readyz"); err != nil {
		return err
	}
	s.say("API server answers at %s", s.lab.Server())
	clients := []string{controllerManager}
	if s.lab.Nodes > 0 {
		clients = append(clients, scheduler, proxy)
	}
	if err := s.start(clients...); err != nil {
		return err
	}
	close(s.answers)
	if s.lab.Nodes > 0 {
		if err := applyDNS(ctx, s.client); err != nil {
			return err
		}
	}
	if err := s.client.await(ctx, "default service account", "/api/v1/namespaces/default/serviceaccounts/default"); err != nil {
		return err
	}
	s.say("controllers work")
	return nil
}

// node starts containerd beside the API server, loads the node's own images, and
// starts kubelet when both are there.
func (s starter) node(ctx context.Context) error {
	if err := s.start(containerd); err != nil {
		return err
	}
	if err := await(ctx, "containerd", func(ctx context.Context) error {
		return closed((&net.Dialer{}).DialContext(ctx, "unix", s.lab.node().Socket()))
	}); err != nil {
		return err
	}
	for _, i := range []Image{{Name: node.PauseImage, Binary: s.programs.pause}, {Name: dnsImage, Binary: s.programs.coredns}} {
		if err := s.lab.Load(ctx, i); err != nil {
			return err
		}
	}
	s.say("containerd runs, images are loaded")
	select {
	case <-s.answers:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.start(kubelet); err != nil {
		return err
	}
	if err := s.client.awaitReady(ctx, "node", "/api/v1/nodes"); err != nil {
		return err
	}
	s.say("node is ready")
	if err := s.client.awaitReady(ctx, "cluster DNS", "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns"); err != nil {
		return err
	}
	// kube-proxy brings a ready pod to its Service within a second.
	namespace, address := netns.Path(s.lab.node().Namespace()), net.JoinHostPort(node.ServiceDNS, "53")
	if err := await(ctx, "the Service of cluster DNS", func(ctx context.Context) error {
		return closed(netns.Dial(ctx, namespace, address))
	}); err != nil {
		return err
	}
	s.say("cluster DNS is ready")
	return nil
}

// closed closes a connection that was opened only to see that it can be.
func closed(conn net.Conn, err error) error {
	if err != nil {
		return err
	}
	return conn.Close()
}

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
