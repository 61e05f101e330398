package cluster

import (
	"context"
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
	first := func(r process.Record) int { return 1 + slices.Index([]string{containerd, kubelet}, r.Name) }
	slices.SortStableFunc(records, func(a, b process.Record) int { return first(b) - first(a) })
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

// sweep removes the lab's network, and the empty folders that labs' own
// folders are mounted over, once no lab on this machine needs them: to remove
// a folder ends what is mounted over it anywhere.
func (l *Lab) sweep(ctx context.Context) error {
	if l.Nodes == 0 {
		return nil // it has no network, and may not be root's
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
	for _, mount := range l.node().Namespaces().Mounts {
		_ = os.Remove(mount.To) // only if it is empty: nobody else uses it
	}
	return node.Sweep()
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
