package cluster

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/kplan-dev/kplan/lab/internal/process"
)

// Stop stops a component: it is asked to end, and killed after grace. It is
// no error if it is not running.
func (l *Lab) Stop(ctx context.Context, component string, grace time.Duration) error {
	if component == containerd {
		return &UsageError{"containerd cannot be stopped alone: the lab's mounts live and die with it (use down and up)"}
	}
	r, err := process.Find(l.records(), component)
	if errors.Is(err, fs.ErrNotExist) {
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
	launch, ctx := newLauncher(ctx, l)
	defer launch.stopWatching()
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
	if err := client.await(ctx, component, "/readyz"); err != nil {
		return launch.cause(err)
	}
	return nil
}
