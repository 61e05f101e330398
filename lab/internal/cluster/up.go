package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/lab/internal/build"
	"github.com/kplan-dev/kplan/lab/internal/debian"
	"github.com/kplan-dev/kplan/lab/internal/netns"
	"github.com/kplan-dev/kplan/lab/internal/node"
)

// Options of Up.
type Options struct {
	Nodes   int
	Charts  []string // folders whose charts the registry serves
	Forward []string // FROM=TO: listen on this machine, dial inside the lab
	Expose  []string // FROM=TO: listen inside the lab, dial from this machine
	Audit   bool
	Keep    bool // leave what there is when Up fails
}

// programs are the files that a lab is built from.
type programs struct{ kube, coredns, pause, charts string }

// HostError says that this machine cannot run a lab.
type HostError struct{ Message string }

func (e *HostError) Error() string { return e.Message }

// checkHost fails where a lab cannot run: it is made of Linux processes.
func checkHost(nodes int) error {
	switch {
	case runtime.GOOS != "linux":
		return &HostError{"a lab runs on Linux only, and this is " + runtime.GOOS}
	case nodes > 0 && os.Geteuid() != 0:
		return &HostError{"a lab with a node needs root (network namespaces, containers)"}
	}
	return nil
}

// Up brings the lab up, or does nothing if it is up already. A lab whose
// processes died is removed and made anew. If Up fails, or ctx is done, it
// leaves nothing behind.
func (l *Lab) Up(ctx context.Context, o Options, say Progress) error {
	if o.Nodes != 0 && o.Nodes != 1 {
		return &UsageError{fmt.Sprintf("--nodes %d: a lab has one node, or none", o.Nodes)}
	}
	if err := checkHost(o.Nodes); err != nil {
		return err
	}
	unlock, err := l.lock(ctx, say)
	if err != nil {
		return err
	}
	defer unlock()
	// Somebody else may have changed it before the lock was ours.
	current, err := Open(l.Name)
	if err != nil {
		return err
	}
	l.Config = current.Config
	if l.Exists() {
		up, err := l.reuse(ctx, o, say)
		if up || err != nil {
			return err
		}
	}
	built, err := prepare(ctx, o, say)
	if err != nil {
		return err
	}
	began := time.Now()
	timed := func(format string, args ...any) {
		say("%5.1fs  %s", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	if err := l.create(ctx, o, built, timed); err != nil {
		if o.Keep {
			say("keeping what there is of lab %s in %s", l.Name, l.Dir)
			return err
		}
		return errors.Join(err, l.remove(context.WithoutCancel(ctx)))
	}
	timed("lab %s is up", l.Name)
	return nil
}

// prepare installs and builds what is missing.
func prepare(ctx context.Context, o Options, say Progress) (programs, error) {
	var built programs
	lines := lineWriter(say)
	builder, err := build.New(lines)
	if err != nil {
		return built, err
	}
	built.charts = filepath.Join(builder.Source, "charts")
	if built.kube, err = builder.Path(ctx, build.Kube); err != nil || o.Nodes == 0 {
		return built, err
	}
	if err := debian.Install(ctx, lines); err != nil {
		return built, err
	}
	if built.pause, err = builder.Path(ctx, build.Pause); err != nil {
		return built, err
	}
	built.coredns, err = builder.Path(ctx, build.CoreDNS)
	return built, err
}

// reuse reports whether the lab that is there will do. If not it removes it.
func (l *Lab) reuse(ctx context.Context, o Options, say Progress) (up bool, err error) {
	status, err := l.Status(ctx)
	if err != nil {
		return false, err
	}
	if status.State == Running {
		if l.Nodes != o.Nodes {
			return false, &UsageError{fmt.Sprintf("lab %s is up with --nodes %d; take it down first, or use another --name", l.Name, l.Nodes)}
		}
		say("lab %s is up already", l.Name)
		return true, nil
	}
	say("lab %s is broken (%s); starting it anew", l.Name, status.Fault)
	return false, l.remove(ctx)
}

// create makes a lab where there is none.
func (l *Lab) create(ctx context.Context, o Options, built programs, say Progress) error {
	l.Config = Config{
		Name: l.Name, Nodes: o.Nodes, Version: build.Version, Created: time.Now().UTC().Truncate(time.Second),
		Forward: o.Forward, Expose: o.Expose, Audit: o.Audit, Kube: built.kube,
	}
	var err error
	if l.Charts, err = charts(o.Charts, built.charts, say); err != nil {
		return err
	}
	if err := l.setUp(ctx, say); err != nil {
		return err
	}
	client, err := l.client()
	if err != nil {
		return err
	}
	launch, ctx := newLauncher(ctx, l)
	defer launch.stopWatching()
	if err := launch.start(serve, etcd, apiserver); err != nil {
		return err
	}
	s := starter{launcher: launch, client: client, programs: built, say: say, answers: make(chan struct{})}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.controlPlane(ctx) })
	if l.Nodes > 0 {
		group.Go(func() error { return s.node(ctx) })
	}
	if err := group.Wait(); err != nil {
		return launch.cause(err)
	}
	l.Ready = true
	return l.save()
}

// setUp makes everything that is not a process: folder, ports, certificates,
// configuration, network.
func (l *Lab) setUp(ctx context.Context, say Progress) error {
	if err := os.MkdirAll(filepath.Dir(l.Dir), 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(l.Bin(), 0o700); err != nil {
		return err
	}
	var err error
	if l.API, l.Registry, err = freePorts(); err != nil {
		return err
	}
	if err := l.save(); err != nil {
		return err
	}
	if err := writeCredentials(l); err != nil {
		return err
	}
	if err := os.WriteFile(l.auditPolicy(), auditPolicy, 0o600); err != nil {
		return err
	}
	if err := os.Symlink(l.Kube, filepath.Join(l.Bin(), "kubectl")); err != nil {
		return err
	}
	if l.Nodes == 0 {
		return nil
	}
	if err := l.node().Write(l.credential("")); err != nil {
		return err
	}
	unlock, err := lockMachine(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if changed, err := node.RaiseLimits(); err != nil {
		return err
	} else if changed {
		say("raised fs.inotify.max_user_instances until the last lab goes")
	}
	return netns.Create(ctx, l.node().Namespace(), netns.Network{Node: node.Network, Services: node.Services})
}

// freePorts finds two ports that nobody listens on.
func freePorts() (first, second int, err error) {
	var ports [2]int
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, err
		}
		defer listener.Close() // both held until both are known, so they differ
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports[0], ports[1], nil
}
