package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/lab/internal/flock"
	"github.com/kplan-dev/kplan/lab/internal/netns"
	"github.com/kplan-dev/kplan/lab/internal/node"
	"github.com/kplan-dev/kplan/lab/internal/process"
)

// Down removes the lab and all that is its own: processes, pods, network,
// folder. It is no error if there is none.
func (l *Lab) Down(ctx context.Context, say Progress) error {
	unlock, err := l.lock(ctx, say)
	if err != nil {
		return err
	}
	defer func() {
		unlock()
		_ = os.Remove(filepath.Dir(l.Dir)) // only when it is empty
	}()
	if !l.Exists() {
		say("there is no lab %s", l.Name)
		return nil
	}
	// Once begun it is finished: half a lab is of no use to anybody.
	if err := l.remove(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	say("lab %s is gone", l.Name)
	return nil
}

// remove does the work of Down, with the lock held. Nothing is asked to end
// orderly: all that it would save is deleted in a moment.
func (l *Lab) remove(ctx context.Context) error {
	records, err := process.List(l.records())
	if err != nil {
		return err
	}
	// Kubelet and containerd go first, so that no new pods come.
	slices.SortStableFunc(records, func(a, b process.Record) int { return rank(a.Name) - rank(b.Name) })
	for _, r := range records {
		if err := r.Stop(ctx, 0); err != nil {
			return err
		}
	}
	if err := l.node().Clean(); err != nil {
		return err
	}
	if err := l.sweep(ctx); err != nil {
		return err
	}
	return removeAll(l.Dir)
}

func rank(component string) int {
	switch component {
	case kubelet:
		return 0
	case containerd:
		return 1
	default:
		return 2
	}
}

// sweep removes the lab's network, and the empty folders that labs' own
// folders are mounted over, once no lab on this machine needs them: to remove
// a folder ends what is mounted over it anywhere.
func (l *Lab) sweep(ctx context.Context) error {
	if l.Nodes == 0 {
		return nil
	}
	unlock, err := lockMachine(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := netns.Delete(l.node().Namespace()); err != nil {
		return err
	}
	if others, err := filepath.Glob(netns.Path(node.Prefix + "*")); err != nil || len(others) > 0 {
		return err
	}
	for _, mount := range l.node().Room().Mounts {
		_ = os.Remove(mount.To) // only if it is empty: nobody else uses it
	}
	node.Sweep()
	return nil
}

// lockMachine keeps all labs with a node from coming and going.
func lockMachine(ctx context.Context) (func(), error) {
	return flock.Lock(ctx, "/run/kplan-lab.lock", nil)
}

// removeAll removes a folder. The mounts of a lab vanish with the last
// process that saw them, which the kernel may do a moment after its death.
func removeAll(dir string) error {
	for try := 0; ; try++ {
		err := os.RemoveAll(dir)
		if err == nil {
			return nil
		}
		if try == 100 {
			return fmt.Errorf("state folder: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Restart stops a component and starts it anew as it was; it returns when it
// is ready. While it is away, callers of the API server are refused.
func (l *Lab) Restart(ctx context.Context, component string) error {
	if err := l.Stop(ctx, component); err != nil {
		return err
	}
	return l.Start(ctx, component)
}

// grace is how long a component may take to end; the API server lets
// requests in flight finish.
const grace = 15 * time.Second

// Stop stops a component; it is no error if it is not running.
func (l *Lab) Stop(ctx context.Context, component string) error {
	r, err := process.Find(l.records(), component)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.Stop(ctx, grace)
}

// Start starts a component that was stopped or died, and waits until it is
// ready; it is no error if it runs.
func (l *Lab) Start(ctx context.Context, component string) error {
	r, err := process.Find(l.records(), component)
	if err != nil {
		return err
	}
	if r.Alive() {
		return nil
	}
	spec, err := l.spec(component)
	if err != nil {
		return err
	}
	launch, ctx := newLauncher(ctx, l)
	defer launch.forget()
	if err := launch.start(component); err != nil {
		return err
	}
	if component != apiserver && component != etcd && component != serve {
		return nil
	}
	client, err := l.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if err := await(ctx, spec.Name, func(ctx context.Context) error { return client.Get(ctx, "/readyz", nil) }); err != nil {
		return launch.cause(err)
	}
	return nil
}
