package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/watchdog"
)

// kind is that of the cleaner. Its order are the files to remove; the first one is the
// folder.
var kind = watchdog.Kind{Variable: "KPLAN_HOLD_CLEANER", Name: "hold-cleaner"}

// cleaner is a process that removes files when this one is dead.
type cleaner struct {
	files   []string
	process *watchdog.Process // nil on a system where it cannot do its work
}

// watch starts a cleaner, which removes files.
func watch(files []string) (*cleaner, error) {
	if !canClean {
		return &cleaner{files: files}, nil
	}
	process, err := kind.Start(files, nil)
	return &cleaner{files, process}, err
}

// mind makes a process end with this one.
func (c *cleaner) mind(pid int) {
	if c.process != nil {
		_, _ = fmt.Fprintln(c.process.Alive, pid) // without a cleaner that process ends by itself
	}
}

// close ends the cleaner: this process has done its work.
func (c *cleaner) close() error {
	if c.process == nil {
		return nil
	}
	return c.process.Close()
}

// Main does the work of a cleaner, and exits. In any other process it does nothing.
func Main() {
	watchdog.Main(kind, func(files []string) error {
		if len(files) == 0 {
			return errors.New("there is nothing to remove")
		}
		endAll(await(os.Stdin), files[0])
		return removeAll(files)
	})
}

// await reads from alive until the process at its other end is dead, and returns the
// process that it minded last; 0 without.
func await(alive io.Reader) int {
	pid := 0
	for lines := bufio.NewScanner(alive); lines.Scan(); {
		if n, err := strconv.Atoi(strings.TrimSpace(lines.Text())); err == nil {
			pid = n
		}
	}
	return pid
}
