package node

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/lab/internal/file"
)

// Kubelet, the API server and containerd watch files with about 20 inotify
// instances per lab, and a machine's usual limit for all of a user's
// processes is 128: the seventh lab would die of "too many open files".
const inotifyInstances = 1024

// inotifyFile is the kernel's limit, inotifyKept what it was before.
var (
	inotifyFile = "/proc/sys/fs/inotify/max_user_instances"
	inotifyKept = "/run/kplan-lab.inotify"
)

// RaiseLimits raises what the machine allows to what several labs need, and
// remembers what it was. It says whether it changed something.
func RaiseLimits() (changed bool, err error) {
	was, err := readNumber(inotifyFile)
	if err != nil || was >= inotifyInstances {
		return false, err
	}
	if err := file.Write(inotifyKept, []byte(strconv.Itoa(was))); err != nil {
		return false, err
	}
	return true, os.WriteFile(inotifyFile, []byte(strconv.Itoa(inotifyInstances)), 0o644)
}

// restoreLimits undoes RaiseLimits, unless somebody changed the limit since.
func restoreLimits() error {
	was, err := readNumber(inotifyKept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := readNumber(inotifyFile)
	if err != nil {
		return err
	}
	if now == inotifyInstances {
		err = os.WriteFile(inotifyFile, []byte(strconv.Itoa(was)), 0o644)
	}
	return errors.Join(err, os.Remove(inotifyKept))
}

func readNumber(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
