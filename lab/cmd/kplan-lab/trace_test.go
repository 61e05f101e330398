//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/lab/internal/netns"
	"github.com/kplan-dev/kplan/lab/internal/node"
)

// trace is everything by which a lab shows on a machine. It is found by
// looking, not by asking the lab; other labs may come and go meanwhile.
type trace struct {
	dir       string
	spaces    map[string]bool // namespaces of its processes that are not the host's
	processes []string        // "PID START" of all processes in those namespaces or with dir in their command
	groups    []string        // names of its containers' control groups
	network   string          // the name of its network namespace
	host      []string        // hostFolders before it was there
}

// hostFolders lists what is in the folders of the machine that Kubernetes
// and containerd like to fill, less what is other labs'.
func hostFolders() []string {
	var names []string
	for _, folder := range []string{
		"/run/netns", "/run/containerd", "/run/runc", "/var/lib/cni", "/var/lib/kubelet",
		"/var/log/pods", "/var/log/containers", "/opt/containerd", "/opt/cni", "/etc/cni/net.d",
	} {
		entries, _ := os.ReadDir(folder)
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), "kplan-lab-") {
				names = append(names, filepath.Join(folder, entry.Name()))
			}
		}
	}
	return names
}

func traces(t *testing.T, b *bench) trace {
	t.Helper()
	s := b.status()
	found := trace{dir: s.Dir, host: b.host, network: netns.Path(node.Node{Lab: s.Name, Dir: s.Dir}.Namespace()), spaces: map[string]bool{}}
	for _, c := range s.Components {
		for _, kind := range []string{"net", "mnt"} {
			space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.PID, kind))
			host, _ := os.Readlink("/proc/self/ns/" + kind)
			if err == nil && space != host {
				found.spaces[space] = true
			}
		}
	}
	containers, _ := os.ReadDir(filepath.Join(s.Dir, "node/run/io.containerd.runtime.v2.task/k8s.io"))
	for _, container := range containers {
		found.groups = append(found.groups, container.Name())
	}
	found.processes = found.running()
	return found
}

// running lists the processes that belong to the lab, by what is known of it.
// Those in pods are found by their control group.
func (f trace) running() []string {
	var running []string
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid := entry.Name()
		if _, err := strconv.Atoi(pid); err != nil || pid == strconv.Itoa(os.Getpid()) || !alive(pid) {
			continue
		}
		command, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		group, _ := os.ReadFile("/proc/" + pid + "/cgroup")
		network, _ := os.Readlink("/proc/" + pid + "/ns/net")
		mounts, _ := os.Readlink("/proc/" + pid + "/ns/mnt")
		mine := strings.Contains(string(command), f.dir) || f.spaces[network] || f.spaces[mounts]
		for _, id := range f.groups {
			mine = mine || strings.Contains(string(group), id)
		}
		if mine {
			running = append(running, pid+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return running
}

func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// requireNoTrace fails if anything of the lab is left.
func requireNoTrace(t *testing.T, f trace) {
	t.Helper()
	require.Empty(t, f.running(), "processes")
	require.NoDirExists(t, f.dir)
	require.NoFileExists(t, filepath.Join(filepath.Dir(f.dir), "."+filepath.Base(f.dir)+".lock"))

	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), f.dir)
	require.NotContains(t, string(mounts), f.network)
	require.NoFileExists(t, f.network)
	// Names of pods' networks, kubelet's and containerd's folders: as before.
	require.Equal(t, f.host, hostFolders())
	// The kernel keeps a namespace while anything holds it; nothing may.
	require.Empty(t, holders(f.spaces), "namespaces in use")
	require.Empty(t, f.leftGroups(), "control groups")
}

// leftGroups waits a moment: the kernel frees groups on its own time, but
// the lab must have asked for it.
func (f trace) leftGroups() []string {
	var left []string
	deadline := time.Now().Add(10 * time.Second)
	for first := true; first || len(left) > 0 && time.Now().Before(deadline); first = false {
		if !first {
			time.Sleep(20 * time.Millisecond)
		}
		left = nil
		_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
			for _, id := range f.groups {
				if err == nil && d.Name() == id {
					left = append(left, path)
				}
			}
			return nil
		})
	}
	return left
}

func holders(spaces map[string]bool) []string {
	var held []string
	links, _ := filepath.Glob("/proc/[0-9]*/ns/*")
	for _, link := range links {
		if space, err := os.Readlink(link); err == nil && spaces[space] {
			held = append(held, link)
		}
	}
	return held
}
