package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kplan-dev/kplan/lab/internal/debian"
)

// Create makes the namespace name, which `ip netns exec` then finds. Unlike
// `ip netns add` it leaves no mount on the folder of names.
func Create(ctx context.Context, name string, n Network) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(Path(name), os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	_ = file.Close()
	if err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", Path(name), "", unix.MS_BIND, "")
	}); err != nil {
		return errors.Join(err, os.Remove(Path(name)))
	}
	return configure(ctx, name, n)
}

// configure gives the namespace its links, address and routes.
func configure(ctx context.Context, name string, n Network) error {
	node, _, err := net.ParseCIDR(n.Node)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		// The kernel may lack the dummy type; a bridge without ports does.
		{"link", "add", "node0", "type", "bridge"},
		{"addr", "add", n.Node, "dev", "node0"},
		{"link", "set", "node0", "up"},
		// Not over lo: there kube-proxy's reject of a Service without
		// endpoints is lost, and callers time out instead.
		{"route", "add", n.Services, "dev", "node0", "src", node.String()},
	} {
		if err := ip(ctx, append([]string{"-n", name}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// Delete removes the namespace name; it is no error if there is none.
func Delete(name string) error {
	if _, err := os.Stat(Path(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// EINVAL: the file is there, but nothing is mounted on it.
	if err := unix.Unmount(Path(name), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount %s: %w", Path(name), err)
	}
	if err := os.Remove(Path(name)); err != nil {
		return err
	}
	_ = os.Remove(folder) // only if it is empty
	return nil
}

func ip(ctx context.Context, args ...string) error {
	program := debian.Find("ip")
	if program == "" {
		return errors.New("the program ip (package iproute2) is not installed")
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

// Do calls f on a thread inside the namespace of path (a file of ip-netns(8)
// or of /proc); "" is the caller's own. Sockets made by f stay in it; goroutines
// started by f do not.
func Do(path string, f func() error) error {
	if path == "" {
		return f()
	}
	return onThread(func() error {
		if err := enter(path, unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// onThread calls f on a thread that is thrown away afterwards.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		result <- f()
	}()
	return <-result
}

// Listen opens a TCP listener inside the namespace of path.
func Listen(path, address string) (listener net.Listener, err error) {
	err = Do(path, func() error {
		listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
		return err
	})
	return listener, err
}

// Dial opens a TCP connection inside the namespace of path to an IP address and port.
func Dial(ctx context.Context, path, address string) (conn net.Conn, err error) {
	err = Do(path, func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// enter moves the calling thread into a namespace.
func enter(path string, kind int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, kind); err != nil {
		return fmt.Errorf("enter namespace %s: %w", path, err)
	}
	return nil
}
