package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/lab/internal/forward"
	"github.com/kplan-dev/kplan/lab/internal/netns"
	"github.com/kplan-dev/kplan/lab/internal/node"
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
	<-ctx.Done() // a lab without a node and without charts has nothing to serve
	err = group.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) || err == nil {
		return cause
	}
	return err
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

func (l *Lab) serveRegistry(context.Context, *errgroup.Group) error { return nil }
