package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
)

// format is how a result is written to stdout.
type format string

const (
	formatNone format = ""
	formatJSON format = "json"
	formatYAML format = "yaml"
)

// addFormat registers -o.
func addFormat(cmd *cobra.Command, f *format, usage string) {
	cmd.Flags().StringVarP((*string)(f), "output", "o", "", usage)
	complete(cmd, "output", string(formatJSON), string(formatYAML))
}

// complete offers values for a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	fixed := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, fixed); err != nil {
		panic(err) // the flag does not exist: a fault of this program
	}
}

func (f format) check() error {
	if f != formatNone && f != formatJSON && f != formatYAML {
		return usagef("there is no output format %q, only json and yaml", string(f))
	}
	return nil
}

// print writes v to stdout, without what is sensitive.
func (a *app) print(f format, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	b = a.secrets().JSON(b)
	if b = append(b, '\n'); f == formatYAML {
		if b, err = yaml.JSONToYAML(b); err != nil {
			return err
		}
	} else {
		b = ui.InertJSON(b)
	}
	if _, err = a.stdout.Write(b); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// patient is a stdout whose reader may go away, as in kplan … | head -1: what
// it does not want to read any more is no fault of the command.
type patient struct{ out io.Writer }

func (p patient) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return len(b), nil
	}
	return n, err
}
