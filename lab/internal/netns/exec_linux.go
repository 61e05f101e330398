package netns

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Exec replaces this program by args, run inside the namespaces. It returns only if
// that failed. The process id stays what it was.
func Exec(spaces Namespaces, args []string) error {
	// Namespaces belong to threads; the thread that calls execve decides.
	runtime.LockOSThread()
	if spaces.Join != 0 || len(spaces.Mounts) > 0 {
		// Threads share their file system view, and setns refuses that.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
	}
	// Files are opened before mounts hide them.
	if spaces.Net != "" {
		if err := enter(spaces.Net, unix.CLONE_NEWNET); err != nil {
			return err
		}
	}
	if spaces.Join != 0 {
		if err := enter("/proc/"+strconv.Itoa(spaces.Join)+"/ns/mnt", unix.CLONE_NEWNS); err != nil {
			return err
		}
	}
	if len(spaces.Mounts) > 0 {
		if err := newMounts(spaces.Mounts); err != nil {
			return err
		}
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Exec(args[0], args, os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	return nil
}

func newMounts(mounts []Mount) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	// Cut off from the host first, then shared among what runs inside:
	// kubelet and containerd pass mounts on to each other and to pods.
	for _, flags := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|flags, ""); err != nil {
			return fmt.Errorf("propagation of mounts: %w", err)
		}
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.To, 0o755); err != nil {
			return err
		}
		var err error
		if m.From == "" {
			err = unix.Mount("tmpfs", m.To, "tmpfs", unix.MS_NOSUID, "mode=0755")
		} else {
			err = unix.Mount(m.From, m.To, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("mount over %s: %w", m.To, err)
		}
	}
	return nil
}
