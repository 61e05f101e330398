package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

// format is how a result is written to stdout.
type format string

const (
	formatNone format = ""
	formatJSON format = "json"
	formatYAML format = "yaml"
)

// addFormat registers -o, whose default is the value of f. The command does not
// begin with a format that is none of formats.
func addFormat[F ~string](cmd *cobra.Command, f *F, usage string, formats ...F) {
	given := cmd.Flags().StringP("output", "o", string(*f), usage)
	names := words.Names(formats)
	complete(cmd, "output", names...)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if last := len(names) - 1; F(*given) != *f && !slices.Contains(names, *given) {
			return usagef("there is no output format %q, only %s and %s", *given, strings.Join(names[:last], ", "), names[last])
		}
		*f = F(*given)
		return nil
	}
}

// complete offers values for a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	completeBy(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeBy offers what f finds for a flag.
func completeBy(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag does not exist: a fault of this program
	}
}

// oneLine returns a text from a cluster or chart on one line, without what must not be shown.
func (a *app) oneLine(text string) string {
	return words.Line(a.secrets().Text(text))
}

// warn tells on stderr what is missing, with a line for each of the errors that err
// joins.
func (a *app) warn(missing string, err error) {
	for _, problem := range split(err) {
		fmt.Fprintf(a.stderr, "warning: %s: %s\n", missing, a.oneLine(problem.Error()))
	}
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
