package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/child"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// heldCommand is the user's command, with the folder's kubeconfig.
type heldCommand struct {
	child.Command
	kubeconfig string // the file
	report     runner.Reporter
}

func (o *holdOptions) command(args []string, folder *child.Folder, r runner.Reporter) *heldCommand {
	kubeconfig := filepath.Join(folder.Path, kubeconfigName)
	changes := []string{
		"KUBECONFIG=" + kubeconfig, "KUBE_CONFIG_PATH=" + kubeconfig, "KUBE_CONFIG_PATHS=" + kubeconfig,
		"KUBERNETES_MASTER", "KUBECACHEDIR=" + filepath.Join(folder.Path, cachesName),
	}
	return &heldCommand{
		Command: child.Command{
			Args: args, Env: child.Setenv(os.Environ(), append(changes, unproxied()...)...), Folder: folder,
			Stdin: o.stdin, Stdout: tty.Unwrap(o.stdout), Stderr: o.stderr,
			Waits: func(pids []int) { tell(r, waits(args[0], pids)) },
		},
		kubeconfig: kubeconfig, report: r,
	}
}

// run runs the command, and says what of its work is lost.
func (c *heldCommand) run() error {
	before, missing := os.ReadFile(c.kubeconfig)
	err := c.Run()
	after, gone := os.ReadFile(c.kubeconfig)
	if missing == nil && (gone != nil || !bytes.Equal(before, after)) {
		tell(c.report, "the command changed its kubeconfig, which is removed now: the change is lost\n"+
			"hint: what is to change your own kubeconfig is to run without kplan hold")
	}
	return err
}

// waits says what is waited for when a command was interrupted.
func waits(command string, pids []int) string {
	which := fmt.Sprintf("process %d", pids[0])
	if len(pids) > 1 {
		which = fmt.Sprintf("%s, such as %d", words.Count(len(pids), "process"), pids[0])
	}
	return fmt.Sprintf("%s was interrupted; waiting for what it started: %s\nhint: ^C again ends that", filepath.Base(command), which)
}

// tell adds lines of kplan's own to the log.
func tell(r runner.Reporter, text string) {
	r.Report(runner.Report{Type: runner.TypeLog, Message: text})
}
