// Command kplan-lab brings up a real Kubernetes of one node on a bare Linux
// machine, for tests and demonstrations, and takes it down without a trace.
// See ../../README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/lab/internal/build"
	"github.com/kplan-dev/kplan/lab/internal/cluster"
	"github.com/kplan-dev/kplan/lab/internal/netns"
)

func main() {
	// Components start by way of this; it must not wait for anything else.
	if len(os.Args) > 3 && os.Args[1] == cluster.ExecCommand {
		fmt.Fprintln(os.Stderr, "error:", enter(os.Args[2], os.Args[3:]))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o := &options{}
	err := rootCommand(o).ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	if err != nil && !o.understood {
		err = &cluster.UsageError{Message: err.Error()}
	}
	os.Exit(report(err, interrupted))
}

// enter becomes the program in args, inside the namespaces.
func enter(text string, args []string) error {
	var spaces netns.Namespaces
	if err := json.Unmarshal([]byte(text), &spaces); err != nil {
		return err
	}
	return netns.Exec(spaces, args)
}

// options are the flags of all commands.
type options struct {
	name       string
	understood bool // flags and arguments were right, the command has begun
}

// onLab makes a command of what is done with a lab that exists.
func (o *options) onLab(do func(*cobra.Command, *cluster.Lab, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		lab, err := cluster.OpenExisting(o.name)
		if err != nil {
			return err
		}
		return do(cmd, lab, args)
	}
}

func rootCommand(o *options) *cobra.Command {
	root := &cobra.Command{
		Use:   "kplan-lab",
		Short: "a real Kubernetes of one node, for tests and demonstrations",
		Long: `kplan-lab runs a real Kubernetes ` + build.Version + ` of one node on this machine, in a network
namespace of its own: etcd, API server, controllers, scheduler, kubelet, kube-proxy,
containerd, cluster DNS. It needs Linux, root, Go and apt-get; nothing else.`,
		SilenceErrors: true, SilenceUsage: true, TraverseChildren: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.NoArgs, // anything else is no command of ours
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun:  func(*cobra.Command, []string) { o.understood = true },
	}
	root.PersistentFlags().StringVar(&o.name, "name", "kplan", "name of the lab")
	root.AddCommand(
		upCommand(o), downCommand(o), statusCommand(o), listCommand(), kubeconfigCommand(o), loadCommand(o), imageCommand(),
		execCommand(o), kubectlCommand(o), logsCommand(o), buildCommand(),
		componentCommand(o, "restart", "stop a component and start it anew", true, true),
		componentCommand(o, "stop", "stop a component", true, false),
		componentCommand(o, "start", "start a component that was stopped", false, true),
		serveCommand(),
	)
	return root
}

// report prints an error with a hint and returns the exit code: 0 done,
// 1 failed, 2 wrong usage, 130 interrupted.
func report(err error, interrupted bool) int {
	switch {
	case err == nil:
		return 0
	case interrupted:
		fmt.Fprintln(os.Stderr, "error: interrupted")
		return 130
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	if hint := hintFor(err); hint != "" {
		fmt.Fprintln(os.Stderr, "hint:", hint)
	}
	if _, wrong := errors.AsType[*cluster.UsageError](err); wrong {
		return 2
	}
	return 1
}

func hintFor(err error) string {
	var host *cluster.HostError
	var died *cluster.DiedError
	switch {
	case errors.As(err, &host):
		return "kplan's demo and tests run on any cluster: set KUBECONFIG to one of kind, k3d or a real one" +
			"; `kplan-lab up --nodes 0` gives a control plane without root on Linux"
	case errors.As(err, &died):
		return "`kplan-lab up --keep` leaves the broken lab and its logs in place"
	case errors.Is(err, cluster.ErrAbsent):
		return "kplan-lab up makes one"
	}
	return ""
}
