package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// serve starts a forwarder to target and returns its address; the test's end
// stops it and waits for it.
func serve(t *testing.T, target string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(context.Background()) // t.Context ends before Cleanup
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, listener, func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", target)
		})
	}()
	stopped := errors.New("test over")
	t.Cleanup(func() {
		cancel(stopped)
		require.ErrorIs(t, <-ended, stopped)
	})
	return listener.Addr().String()
}

// Each side's end of input reaches the other while answers still flow.
func TestServeHalfClose(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer upstream.Close()
	go func() {
		conn, err := upstream.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		question, _ := io.ReadAll(conn) // ends only when the client's end is passed on
		_, _ = conn.Write(append([]byte("you said "), question...))
	}()

	conn, err := net.Dial("tcp", serve(t, upstream.Addr().String()))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "you said hello", string(answer))
}

// Nobody at the other end: the client is cut off, not left hanging.
func TestServeUnreachable(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := gone.Addr().String()
	require.NoError(t, gone.Close())

	conn, err := net.Dial("tcp", serve(t, address))
	if err != nil {
		return // cut off before Dial returned
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestParseRule(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:80=10.0.0.1:8080": "",
		"[::1]:80=10.0.0.1:8080":     "",
		"127.0.0.1:80":               `forward "127.0.0.1:80": want FROM=TO, each host:port`,
		"80=10.0.0.1:8080":           `forward "80=10.0.0.1:8080": "80" is not host:port`,
		"127.0.0.1:80=10.0.0.1:":     `forward "127.0.0.1:80=10.0.0.1:": "10.0.0.1:" is not host:port`,
	} {
		rule, err := ParseRule(text)
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, text, rule.String())
			continue
		}
		require.EqualError(t, err, want)
	}
}
