// Package forward carries TCP connections from one place to another, across
// network namespaces if told so. It copies bytes and looks into none.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// Dial opens a connection to a fixed place.
type Dial func(ctx context.Context) (net.Conn, error)

// Serve accepts connections until the listener is closed or ctx is done, and
// carries each to what dial opens. It returns when all have ended.
func Serve(ctx context.Context, listener net.Listener, dial Dial) error {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var connections sync.WaitGroup
	defer connections.Wait()
	defer cancel(errors.New("the listener is closed"))
	for {
		from, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			continue // one connection that failed early; the next may do
		}
		connections.Go(func() { carry(ctx, from, dial) })
	}
}

// carry ends when both sides have said all, or ctx is done.
func carry(ctx context.Context, from net.Conn, dial Dial) {
	defer from.Close()
	to, err := dial(ctx)
	if err != nil {
		reset(from)
		return
	}
	defer to.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })
	defer stop()
	var answers sync.WaitGroup
	answers.Go(func() { half(from, to) })
	half(to, from)
	answers.Wait()
}

// half copies one direction and passes its end on, as an end or as a reset.
func half(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil {
		reset(to)
		return
	}
	if tcp, ok := to.(interface{ CloseWrite() error }); ok {
		_ = tcp.CloseWrite()
	}
}

// reset closes such that the peer sees a reset rather than an orderly end:
// what it would see without a forwarder between.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Rule says what is carried where: FROM=TO, each host:port.
type Rule struct{ From, To string }

// ParseRule reads FROM=TO.
func ParseRule(text string) (Rule, error) {
	from, to, found := strings.Cut(text, "=")
	if !found {
		return Rule{}, fmt.Errorf("forward %q: want FROM=TO, each host:port", text)
	}
	for _, address := range []string{from, to} {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return Rule{}, fmt.Errorf("forward %q: %q is not host:port", text, address)
		}
	}
	return Rule{From: from, To: to}, nil
}

func (r Rule) String() string { return r.From + "=" + r.To }
