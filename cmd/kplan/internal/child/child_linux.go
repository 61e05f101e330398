package child

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// bindToThread makes the kernel end the command when this process dies, should the
// cleaner have died before. The kernel means the thread that started it, so that must
// live until release.
func bindToThread(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return runtime.UnlockOSThread
}

// having gives the processes whose environment has the path of a folder. Others of
// that user can be looked at only.
func having(folder string) []int {
	var all []int
	environments, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is good
	for _, file := range environments {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(folder+"/")) {
			all = append(all, pid)
		}
	}
	return all
}
