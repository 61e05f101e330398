package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
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
func (a *app) print(f data.Format, v any) error {
	if err := data.Write(a.stdout, f, v, a.secrets()); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
