package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/lab/internal/forward"
	"github.com/kplan-dev/kplan/lab/internal/netns"
	"github.com/kplan-dev/kplan/lab/internal/node"
	"github.com/kplan-dev/kplan/lab/internal/registry"
)

// Serve is the lab's own long-running process: on 127.0.0.1 it carries
// connections to the API server in the lab's network namespace and serves
// the chart registry. It ends with ctx.
func Serve(ctx context.Context, dir string) error {
	lab, err := Must(filepath.Base(dir))
	if err != nil {
		return err
	}
	if lab.Dir != dir {
		return &UsageError{fmt.Sprintf("%s is not the folder of lab %s", dir, lab.Name)}
	}
	group, ctx := errgroup.WithContext(ctx)
	if lab.Nodes > 0 {
		rules := append([]string{fmt.Sprintf("127.0.0.1:%d=%s:6443", lab.API, node.Address)}, lab.Forward...)
		for _, text := range rules {
			if err := lab.carry(ctx, group, text, false); err != nil {
				return err
			}
		}
		for _, text := range lab.Expose {
			if err := lab.carry(ctx, group, text, true); err != nil {
				return err
			}
		}
	}
	if err := lab.serveRegistry(ctx, group); err != nil {
		return err
	}
	return group.Wait()
}

// carry listens on this machine and dials inside the lab, or the other way
// round if outward.
func (l *Lab) carry(ctx context.Context, group *errgroup.Group, text string, outward bool) error {
	rule, err := forward.ParseRule(text)
	if err != nil {
		return err
	}
	namespace := netns.Path(l.node().Namespace())
	var listener net.Listener
	var dial forward.Dial
	if outward {
		listener, err = netns.Listen(namespace, rule.From)
		dial = func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", rule.To)
		}
	} else {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", rule.From)
		if err == nil {
			dial, err = netns.Dialer(namespace, rule.To)
		}
	}
	if err != nil {
		return fmt.Errorf("forward %s: %w", rule, err)
	}
	group.Go(func() error { return forward.Serve(ctx, listener, dial) })
	return nil
}

// serveRegistry serves the lab's charts as oci://127.0.0.1:PORT/charts/NAME,
// in plain HTTP.
func (l *Lab) serveRegistry(ctx context.Context, group *errgroup.Group) error {
	handler, err := registry.Handler(l.Charts...)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", l.Registry))
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	group.Go(func() error { return server.Serve(listener) })
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

// charts returns the chart folders to serve: those given, which must be
// right, or those below fallback, of which it leaves out what is not.
func charts(given []string, fallback string, say Progress) ([]string, error) {
	if len(given) > 0 {
		_, err := registry.Handler(given...)
		return given, err
	}
	found, err := filepath.Glob(filepath.Join(fallback, "*", "Chart.yaml"))
	var good []string
	for _, file := range found {
		dir := filepath.Dir(file)
		if _, err := registry.Handler(dir); err != nil {
			say("left out of the registry: %v", err)
			continue
		}
		good = append(good, dir)
	}
	return good, err
}
