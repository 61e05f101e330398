package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/kplan-dev/kplan/lab/internal/process"
)

const cgroups = "/sys/fs/cgroup"

// Clean ends all pods of the lab: their shims, the processes below those, and
// their control groups. Kubelet and containerd must have ended before, or
// they start new ones.
func (n Node) Clean() error {
	ids := n.containers()
	// A process may fork while it is being killed, so look again until none
	// is left.
	deadline := time.Now().Add(10 * time.Second)
	for {
		found, err := n.processes(ids)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of the lab's pods survive SIGKILL", len(found))
		}
		for _, r := range found {
			_ = r.Signal(syscall.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return removeGroups(ids)
}

// containers lists the ids of all containers that containerd runs.
func (n Node) containers() map[string]bool {
	ids := map[string]bool{}
	entries, _ := os.ReadDir(n.file("run/io.containerd.runtime.v2.task/k8s.io"))
	for _, entry := range entries {
		ids[entry.Name()] = true
	}
	return ids
}

// processes finds the lab's shims by the socket in their command line, what
// descends from them, and what is in a container's control group.
func (n Node) processes(ids map[string]bool) ([]process.Record, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	var queue []int
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended meanwhile
		}
		children[stat.PPID] = append(children[stat.PPID], p.PID)
		if n.isShim(p) || inGroup(p, ids) {
			queue = append(queue, p.PID)
		}
	}
	seen := map[int]bool{}
	var found []process.Record
	for len(queue) > 0 {
		pid := queue[0]
		queue = append(queue[1:], children[pid]...)
		if seen[pid] {
			continue
		}
		seen[pid] = true
		if r, err := process.Of(pid, "pod"); err == nil && r.Alive() {
			found = append(found, r)
		}
	}
	return found, nil
}

func (n Node) isShim(p procfs.Proc) bool {
	args, err := p.CmdLine()
	if err != nil || len(args) == 0 || !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") {
		return false
	}
	i := slices.Index(args, "-address")
	return i >= 0 && i+1 < len(args) && args[i+1] == n.Socket()
}

// inGroup reports whether the process is in the control group of a container.
func inGroup(p procfs.Proc, ids map[string]bool) bool {
	groups, err := p.Cgroups()
	return err == nil && slices.ContainsFunc(groups, func(g procfs.Cgroup) bool { return ids[filepath.Base(g.Path)] })
}

// removeGroups removes the control groups of containers, in all hierarchies.
func removeGroups(ids map[string]bool) error {
	var groups []string
	err := filepath.WalkDir(cgroups, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // groups come and go while we look
		}
		if ids[d.Name()] {
			groups = append(groups, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var faults []error
	// Children come after their parents in the walk.
	for _, group := range slices.Backward(groups) {
		faults = append(faults, removeGroup(group))
	}
	return errors.Join(faults...)
}

// Sweep undoes what all labs share, once none is left: it removes the control
// groups above those of pods, if no container of anybody is in them, and
// restores limits. Containerd makes the groups with those of the first
// container, and would not expect them to go while it runs.
func Sweep() error {
	parents, _ := filepath.Glob(filepath.Join(cgroups, "*", "k8s.io"))
	for _, parent := range append(parents, filepath.Join(cgroups, "k8s.io")) {
		_ = os.Remove(parent)
	}
	return restoreLimits()
}

// removeGroup removes one group; the kernel takes a moment to notice that
// its processes are gone.
func removeGroup(path string) error {
	for try := 0; ; try++ {
		err := os.Remove(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if try == 100 || !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("control group: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
