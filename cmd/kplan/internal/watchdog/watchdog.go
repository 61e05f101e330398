// Package watchdog starts a second process of this program, which waits for the death
// of the first, of whatever cause, and then does what that could not do any more.
//
// It does not know what that is, and catches neither signals nor panics of the first.
package watchdog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/footprint"
)

// Kind is a kind of watchdog.
type Kind struct {
	// Variable is that of the environment which makes a process such a watchdog. Its
	// value is the order, as JSON.
	Variable string
	// Name is what lists of processes have for it: not the program's, or who kills
	// the program by its name would kill both.
	Name string
}

// Process is a watchdog that waits for the death of this process.
type Process struct {
	// Alive is what the watchdog reads as its standard input. That ends when this
	// process does.
	Alive *os.File
	cmd   *exec.Cmd
}

// Start starts a watchdog with an order. It writes to out, which may be nil, and finds
// the other files from file descriptor 3 on. It has no other stream of this process:
// whoever reads those would wait for it. The program must call Main first of all.
func (k Kind) Start(order any, out *os.File, files ...*os.File) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	value, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	read, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := exec.Command(self) //nolint:noctx // it has to outlive this process
	cmd.Args, cmd.Env = []string{k.Name}, []string{k.Variable + "=" + string(value)}
	cmd.Stdin, cmd.ExtraFiles = read, files
	if out != nil {
		cmd.Stdout = out
	}
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, alive.Close())
	}
	return &Process{alive, cmd}, nil
}

// Close ends the watchdog: this process has done all itself.
func (p *Process) Close() error {
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = p.cmd.Wait() // it was killed
	return errors.Join(err, p.Alive.Close())
}

// Main does the work of a watchdog of this kind in a process that Start started, and
// exits. In any other process it does nothing. The work has to read os.Stdin up to its
// end before anything else.
func Main[Order any](k Kind, work func(Order) error) {
	value := os.Getenv(k.Variable)
	if value == "" {
		return
	}
	ignoreSignals()
	footprint.Trim()
	_ = os.WriteFile("/proc/self/comm", []byte(k.Name), 0) // Linux takes the name of the program's file else
	var order Order
	err := json.Unmarshal([]byte(value), &order)
	if err == nil {
		err = work(order)
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
