package cluster

import (
	"context"
	"errors"
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
	lab, err := OpenExisting(filepath.Base(dir))
	if err != nil {
		return err
	}
	if lab.Dir != dir {
		return &UsageError{fmt.Sprintf("%s is not the folder of lab %s", dir, lab.Name)}
	}
	group, ctx := errgroup.WithContext(ctx)
	if lab.Nodes > 0 {
		namespace := netns.Path(lab.node().Namespace())
		var faults []error
		for _, text := range append([]string{fmt.Sprintf("127.0.0.1:%d=%s:6443", lab.API, node.Address)}, lab.Forward...) {
			faults = append(faults, serveRule(ctx, group, text, "", namespace))
		}
		for _, text := range lab.Expose {
			faults = append(faults, serveRule(ctx, group, text, namespace, ""))
		}
		if err := errors.Join(faults...); err != nil {
			return err
		}
	}
	if err := serveRegistry(ctx, group, lab); err != nil {
		return err
	}
	return group.Wait()
}

// serveRule listens in one network namespace and dials in another; "" is this
// machine's.
func serveRule(ctx context.Context, group *errgroup.Group, text, listenIn, dialIn string) error {
	rule, err := forward.ParseRule(text)
	if err != nil {
		return err
	}
	listener, err := netns.Listen(listenIn, rule.From)
	if err != nil {
		return fmt.Errorf("forward %s: %w", rule, err)
	}
	group.Go(func() error {
		return forward.Serve(ctx, listener, func(ctx context.Context) (net.Conn, error) {
			return netns.Dial(ctx, dialIn, rule.To)
		})
	})
	return nil
}

// serveRegistry serves the lab's charts as oci://127.0.0.1:PORT/charts/NAME,
// in plain HTTP.
func serveRegistry(ctx context.Context, group *errgroup.Group, l *Lab) error {
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
