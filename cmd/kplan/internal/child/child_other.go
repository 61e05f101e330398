//go:build !unix

package child

import (
	"os"
	"os/exec"
	"os/signal"
)

// canClean says that no cleaner can do its work on this system: whoever kills kplan
// leaves its folder behind.
const canClean = false

func exitOf(exit *exec.ExitError) *ExitError  { return &ExitError{Code: exit.ExitCode()} }
func bindToThread(*exec.Cmd) (release func()) { return func() {} }
func endAll(int, string)                      {}

// caught is ^C, which the console sends to the command too.
type caught struct{ signals chan os.Signal }

func catch() *caught {
	c := &caught{make(chan os.Signal, 1)}
	signal.Notify(c.signals, os.Interrupt)
	return c
}

func (c *caught) handOn(func(os.Signal) error) (stop func()) { return func() {} }

func (c *caught) endLeft(*ExitError, string, func([]int)) {}

func (c *caught) release() { signal.Stop(c.signals) }
