package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/lab/internal/build"
	"github.com/kplan-dev/kplan/lab/internal/cluster"
	"github.com/kplan-dev/kplan/lab/internal/debian"
)

// lines writes progress for people.
func lines(w io.Writer) cluster.Progress {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

func upCommand(o *options) *cobra.Command {
	up := cluster.Options{Nodes: 1}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "bring the lab up; nothing happens if it is up already",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lab, err := cluster.Open(o.name)
			if err != nil {
				return err
			}
			for i, dir := range up.Charts {
				if up.Charts[i], err = filepath.Abs(dir); err != nil {
					return err
				}
			}
			if err := lab.Up(cmd.Context(), up, lines(cmd.ErrOrStderr())); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "export KUBECONFIG=%s\n", lab.Kubeconfig())
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&up.Nodes, "nodes", 1, "1, or 0 for a control plane alone (quicker; needs no root)")
	flags.StringSliceVar(&up.Charts, "charts", nil, "folders of charts for the lab's registry (default: the lab's own)")
	flags.StringSliceVar(&up.Forward, "forward", nil, "host:port=host:port: listen on this machine, connect inside the lab")
	flags.StringSliceVar(&up.Expose, "expose", nil, "host:port=host:port: listen inside the lab, connect from this machine")
	flags.BoolVar(&up.Audit, "audit", false, "write the API server's audit log: all requests but those of service accounts and nodes")
	flags.BoolVar(&up.Keep, "keep", false, "leave what there is when it fails")
	return cmd
}

func downCommand(o *options) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "remove the lab and all that is its own",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names := []string{o.name}
			if all {
				var err error
				if names, err = cluster.Names(); err != nil {
					return err
				}
			}
			var faults []error
			for _, name := range names {
				lab, err := cluster.Open(name)
				if err == nil {
					err = lab.Down(cmd.Context(), lines(cmd.ErrOrStderr()))
				}
				faults = append(faults, err)
			}
			return errors.Join(faults...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all labs, whatever their name")
	return cmd
}

// buildCommand fills the cache, for images of machines and for make.
func buildCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "build",
		Short: "build and install all that a lab needs, and start nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			builder, err := build.New(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if dry {
				return tellMissing(cmd.OutOrStdout(), builder)
			}
			for _, program := range build.Programs {
				path, err := builder.Path(cmd.Context(), program)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			if os.Geteuid() != 0 {
				return nil
			}
			return debian.Install(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be built and installed")
	return cmd
}

// tellMissing says what a lab needs and is not there yet.
func tellMissing(w io.Writer, builder *build.Builder) error {
	for _, program := range build.Programs {
		built, err := builder.Built(program)
		if err != nil {
			return err
		}
		if !built {
			fmt.Fprintf(w, "to be built: %s\n", program.Name)
		}
	}
	if missing := debian.Missing(); len(missing) > 0 {
		fmt.Fprintf(w, "to be installed: %s\n", strings.Join(missing, " "))
	}
	return nil
}

func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use: cluster.ServeCommand + " DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return cluster.Serve(cmd.Context(), args[0]) },
	}
}
