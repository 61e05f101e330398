package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/footprint"
)

// variable is that of the environment which makes a process the guard. Its value are
// the files to remove, as JSON; the first one is the folder.
const variable = "KPLAN_HOLD_GUARD"

// guardName is what lists of processes have for the guard: not the program's, or who
// kills the program by its name would kill both.
const guardName = "hold-guard"

// guard is a process that waits for the death of this one.
type guard struct {
	files   []string
	process *exec.Cmd
	alive   *os.File // the process sees its end
}

// watch starts a guard, which removes files.
func watch(files []string) (*guard, error) {
	if !guarded {
		return &guard{files: files}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	todo, err := json.Marshal(files)
	if err != nil {
		return nil, err
	}
	read, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	process := exec.Command(self) //nolint:noctx // it has to outlive this process
	process.Args = []string{guardName}
	process.Env = []string{variable + "=" + string(todo)}
	process.Stdin = read // and no other stream: whoever reads this process's would wait for the guard
	process.SysProcAttr = apart()
	if err := process.Start(); err != nil {
		return nil, errors.Join(err, alive.Close())
	}
	return &guard{files, process, alive}, nil
}

// mind makes a process end with this one.
func (g *guard) mind(pid int) {
	if g.alive != nil {
		_, _ = fmt.Fprintln(g.alive, pid) // without a guard that process ends by itself
	}
}

// close ends the guard: this process has done its work.
func (g *guard) close() error {
	if g.process == nil {
		return nil
	}
	err := g.process.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = g.process.Wait() // it was killed
	return errors.Join(err, g.alive.Close())
}

// Main does the work of a guard, and exits. In any other process it does nothing.
func Main() {
	todo := os.Getenv(variable)
	if todo == "" {
		return
	}
	heedless()
	footprint.Trim()
	var files []string
	if err := json.Unmarshal([]byte(todo), &files); err != nil || len(files) == 0 {
		os.Exit(1)
	}
	pid := await(os.Stdin)
	endAll(pid, files[0])
	if err := removeAll(files); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// await reads from alive until the process at its other end is dead, and gives the
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
