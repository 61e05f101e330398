package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/child"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// runCommand runs the user's command with the folder's kubeconfig and the variables of
// traced, and says what of its work is lost.
func (o *holdOptions) runCommand(args []string, folder *child.Folder, traced []string, r runner.Reporter) error {
	kubeconfig := filepath.Join(folder.Path, kubeconfigName)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KUBERNETES_MASTER=") })
	env = append(env, "KUBECONFIG="+kubeconfig, "KUBE_CONFIG_PATH="+kubeconfig, "KUBE_CONFIG_PATHS="+kubeconfig, "KUBECACHEDIR="+filepath.Join(folder.Path, cachesName))
	command := child.Command{
		Args: args, Env: slices.Concat(env, unproxied(), traced), Folder: folder,
		Stdin: o.stdin, Stdout: tty.Unwrap(o.stdout), Stderr: o.stderr,
		Waits: func(pids []int) { tell(r, waits(args[0], pids)) },
	}
	before, missing := os.ReadFile(kubeconfig)
	err := command.Run()
	after, gone := os.ReadFile(kubeconfig)
	if missing == nil && (gone != nil || !bytes.Equal(before, after)) {
		tell(r, "the command changed its kubeconfig, which is removed now: the change is lost\n"+
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
