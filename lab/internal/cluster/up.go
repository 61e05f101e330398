package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/lab/internal/api"
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
		up, err := l.adopt(ctx, o, say)
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
	source, err := build.Source()
	if err != nil {
		return built, err
	}
	cache, err := build.CacheDir()
	if err != nil {
		return built, err
	}
	built.charts = filepath.Join(source, "charts")
	lines := lineWriter(say)
	builder := &build.Builder{Source: source, Cache: cache, Progress: lines}
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

// adopt tells whether the lab that is there will do. If not it removes it.
func (l *Lab) adopt(ctx context.Context, o Options, say Progress) (up bool, err error) {
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
	if err := l.lay(ctx, say); err != nil {
		return err
	}
	launch, ctx := newLauncher(ctx, l)
	defer launch.forget()
	client, err := l.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := launch.start(serve, etcd, apiserver); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.startControl(ctx, launch, client, say) })
	if l.Nodes > 0 {
		group.Go(func() error { return l.startNode(ctx, launch, client, built, say) })
	}
	if err := group.Wait(); err != nil {
		return launch.cause(err)
	}
	l.Ready = true
	return l.save()
}

// lay makes everything that is not a process: folder, ports, certificates,
// configuration, network.
func (l *Lab) lay(ctx context.Context, say Progress) error {
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
	if err := l.writeCredentials(); err != nil {
		return err
	}
	if err := os.WriteFile(l.path("audit-policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	if err := os.Symlink(l.Kube, filepath.Join(l.Bin(), "kubectl")); err != nil {
		return err
	}
	if l.Nodes == 0 {
		return nil
	}
	if err := l.node().Write(l.credentials()); err != nil {
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

// startControl starts the control plane's clients when the API server
// answers, and waits for what they make.
func (l *Lab) startControl(ctx context.Context, launch *launcher, client *api.Client, say Progress) error {
	if err := await(ctx, "API server", func(ctx context.Context) error {
		return client.Get(ctx, "/readyz", nil)
	}); err != nil {
		return err
	}
	say("API server answers at %s", l.Server())
	clients := []string{controllerManager}
	if l.Nodes > 0 {
		clients = append(clients, scheduler, proxy)
	}
	if err := launch.start(clients...); err != nil {
		return err
	}
	close(launch.api)
	if l.Nodes > 0 {
		if err := applyDNS(ctx, client); err != nil {
			return err
		}
	}
	if err := await(ctx, "default service account", func(ctx context.Context) error {
		return client.Get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
	}); err != nil {
		return err
	}
	say("controllers work")
	return nil
}

// startNode starts containerd beside the API server, loads the node's own
// images, and starts kubelet when both are there.
func (l *Lab) startNode(ctx context.Context, launch *launcher, client *api.Client, built programs, say Progress) error {
	if err := launch.start(containerd); err != nil {
		return err
	}
	if err := await(ctx, "containerd", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", l.node().Socket())
		if err == nil {
			err = conn.Close()
		}
		return err
	}); err != nil {
		return err
	}
	if err := l.Load(ctx, Image{Name: node.PauseImage, Binary: built.pause}); err != nil {
		return err
	}
	if err := l.Load(ctx, Image{Name: dnsImage, Binary: built.coredns}); err != nil {
		return err
	}
	say("containerd runs, images are loaded")
	select {
	case <-launch.api:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := launch.start(kubelet); err != nil {
		return err
	}
	if err := await(ctx, "node", func(ctx context.Context) error {
		return client.Ready(ctx, "/api/v1/nodes/"+node.Name)
	}); err != nil {
		return err
	}
	say("node is ready")
	if err := await(ctx, "cluster DNS", func(ctx context.Context) error {
		return client.Ready(ctx, "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns")
	}); err != nil {
		return err
	}
	// kube-proxy brings a ready pod to its Service within a second.
	dial, err := netns.Dialer(netns.Path(l.node().Namespace()), net.JoinHostPort(node.ServiceDNS, "53"))
	if err != nil {
		return err
	}
	if err := await(ctx, "the Service of cluster DNS", func(ctx context.Context) error {
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		return err
	}
	say("cluster DNS is ready")
	return nil
}
