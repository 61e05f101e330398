package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/lab/internal/cluster"
	"github.com/kplan-dev/kplan/lab/internal/image"
)

func statusCommand(o *options) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "say whether the lab is up, and where",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lab, err := cluster.Open(o.name)
			if err != nil {
				return err
			}
			status, err := lab.Status(cmd.Context())
			if err != nil {
				return err
			}
			switch output {
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(status)
			case "table":
				return table(cmd.OutOrStdout(), status)
			default:
				return &cluster.UsageError{Message: fmt.Sprintf("-o %s: want table or json", output)}
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func table(w io.Writer, s cluster.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "lab\t%s\t%s\n", s.Name, s.State)
	if s.State == cluster.Absent {
		return t.Flush()
	}
	if s.Fault != "" {
		fmt.Fprintf(t, "fault\t%s\n", s.Fault)
	}
	fmt.Fprintf(t, "kubernetes\t%s, %d node(s), for %s\n", s.Version, s.Nodes, time.Since(s.Created).Round(time.Second))
	fmt.Fprintf(t, "server\t%s\nregistry\t%s\nkubeconfig\t%s\n", s.Server, s.Registry, s.Kubeconfig)
	if s.AuditLog != "" {
		fmt.Fprintf(t, "audit log\t%s\n", s.AuditLog)
	}
	for _, c := range s.Components {
		state := "dead"
		if c.Alive {
			state = "alive"
		}
		fmt.Fprintf(t, "%s\t%s\tpid %d\n", c.Name, state, c.PID)
	}
	return t.Flush()
}

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the labs on this machine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := cluster.Names()
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, name := range names {
				lab, err := cluster.Open(name)
				if err != nil {
					return err
				}
				s, err := lab.Status(cmd.Context())
				if err != nil {
					return err
				}
				fmt.Fprintf(t, "%s\t%s\t%d node(s)\t%s\n", s.Name, s.State, s.Nodes, s.Kubeconfig)
			}
			return t.Flush()
		},
	}
}

func kubeconfigCommand(o *options) *cobra.Command {
	var path bool
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "print the administrator's kubeconfig",
		Args:  cobra.NoArgs,
		RunE: o.onLab(func(cmd *cobra.Command, lab *cluster.Lab, _ []string) error {
			if path {
				fmt.Fprintln(cmd.OutOrStdout(), lab.Kubeconfig())
				return nil
			}
			data, err := os.ReadFile(lab.Kubeconfig())
			if err == nil {
				_, err = cmd.OutOrStdout().Write(data)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&path, "path", false, "print the file's name instead")
	return cmd
}

func loadCommand(o *options) *cobra.Command {
	var i cluster.Image
	cmd := &cobra.Command{
		Use:   "load {IMAGE BINARY | --tar FILE}",
		Short: "make an image of a static binary and give it to the lab's node",
		Args: func(cmd *cobra.Command, args []string) error {
			if i.Tar != "" {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(2)(cmd, args)
		},
		RunE: o.onLab(func(cmd *cobra.Command, lab *cluster.Lab, args []string) error {
			if i.Tar == "" {
				i.Name, i.Binary = args[0], args[1]
			}
			return lab.Load(cmd.Context(), i)
		}),
	}
	cmd.Flags().StringVar(&i.Tar, "tar", "", "a tar file of images instead, as docker save writes it")
	cmd.Flags().StringVar(&i.User, "user", "65532:65532", "user and group of the image's process")
	return cmd
}

// imageCommand writes what loadCommand loads, for clusters that are no lab.
func imageCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "image IMAGE BINARY FILE",
		Short: "write an image of a static binary to a tar file, for other clusters",
		Example: `  kplan-lab image kplan.dev/lab-operator:dev bin/lab-operator operator.tar
  kind load image-archive operator.tar`,
		Args: cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			file, err := os.Create(args[2])
			if err != nil {
				return err
			}
			defer func() {
				if err = errors.Join(err, file.Close()); err != nil {
					_ = os.Remove(args[2]) // half an image helps nobody
				}
			}()
			return image.Write(file, args[1], image.Options{Name: args[0], User: user})
		},
	}
	cmd.Flags().StringVar(&user, "user", "65532:65532", "user and group of the image's process")
	return cmd
}

func execCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "exec -- COMMAND [ARGS]",
		Short: "run a command with KUBECONFIG set and kubectl on its PATH",
		Args:  cobra.MinimumNArgs(1),
		RunE:  o.onLab(func(_ *cobra.Command, lab *cluster.Lab, args []string) error { return run(lab, args) }),
	}
}

func kubectlCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl ARGS",
		Short: "run kubectl on the lab (give --name before: kplan-lab --name X kubectl …)",
		// kubectl's flags are kubectl's.
		DisableFlagParsing: true,
		RunE: o.onLab(func(_ *cobra.Command, lab *cluster.Lab, args []string) error {
			return run(lab, append([]string{filepath.Join(lab.Bin(), "kubectl")}, args...))
		}),
	}
}

// run becomes the command, so that its signals, terminal and exit code are
// its own. It returns only if that failed.
func run(lab *cluster.Lab, args []string) error {
	for name, value := range map[string]string{
		"PATH": lab.Bin() + string(filepath.ListSeparator) + os.Getenv("PATH"), "KUBECONFIG": lab.Kubeconfig(),
		// kubectl keeps what it discovers by host and port; the next lab may
		// get the same port.
		"KUBECACHEDIR": filepath.Join(lab.Dir, "kubectl-cache"),
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	if err := syscall.Exec(program, args, os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

func logsCommand(o *options) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs COMPONENT",
		Short: "print what a component has logged",
		Args:  cobra.ExactArgs(1),
		RunE: o.onLab(func(cmd *cobra.Command, lab *cluster.Lab, args []string) error {
			name, err := lab.Component(args[0])
			if err != nil {
				return err
			}
			file, err := os.Open(lab.Log(name))
			if err != nil {
				return err
			}
			defer file.Close()
			for {
				if _, err := io.Copy(cmd.OutOrStdout(), file); err != nil || !follow {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(200 * time.Millisecond):
				}
			}
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	return cmd
}

// componentCommand stops a component, starts it, or does both in turn.
func componentCommand(o *options, verb, short string, stop, start bool) *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use: verb + " COMPONENT", Short: short + ", e.g. apiserver", Args: cobra.ExactArgs(1),
		RunE: o.onLab(func(cmd *cobra.Command, lab *cluster.Lab, args []string) error {
			name, err := lab.Component(args[0])
			if err == nil && stop {
				err = lab.Stop(cmd.Context(), name, grace)
			}
			if err == nil && start {
				err = lab.Start(cmd.Context(), name)
			}
			return err
		}),
	}
	if stop {
		// An API server with open watches would take a minute to end.
		cmd.Flags().DurationVar(&grace, "grace", 2*time.Second, "how long it may finish requests before it is killed; 0 kills it at once")
	}
	return cmd
}
