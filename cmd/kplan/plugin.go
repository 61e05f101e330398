package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// asPlugin is how the user calls kplan where kubectl runs it, by the name of the program.
const asPlugin = "kubectl kplan"

// nameOf returns how the user calls the program: kubectl runs its plugins by a name that
// begins with kubectl-.
func nameOf(arg0 string) string {
	if strings.HasPrefix(filepath.Base(arg0), "kubectl-") {
		return asPlugin
	}
	return "kplan"
}

// commandLine finds kplan in front of a word, where no word or path goes on to it, and
// whether it is called through kubectl already.
var commandLine = regexp.MustCompile(`(kubectl |^|[^\w./-])kplan ([a-z]+)\b`)

// called returns a text for the user in which commands of kplan are as the user calls
// them: a plugin of kubectl need not be on the PATH as kplan. Data, files and records
// are not such texts: others read them too.
func (a *app) called(text string) string {
	if a.name != asPlugin {
		return text
	}
	return commandLine.ReplaceAllStringFunc(text, func(found string) string {
		at := commandLine.FindStringSubmatch(found)
		if at[1] == "kubectl " || !slices.Contains(a.commands, at[2]) {
			return found // it says so already, or it is a sentence about kplan
		}
		return at[1] + a.name + " " + at[2]
	})
}

// rename lets the help of all commands say how the user calls them.
func (a *app) rename(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		a.commands = append(a.commands, cmd.Name())
	}
	if a.name == asPlugin {
		a.renameTree(root)
	}
}

func (a *app) renameTree(cmd *cobra.Command) {
	cmd.Short, cmd.Long, cmd.Example = a.called(cmd.Short), a.called(cmd.Long), a.called(cmd.Example)
	usage := func(f *pflag.Flag) { f.Usage = a.called(f.Usage) }
	cmd.Flags().VisitAll(usage)
	cmd.PersistentFlags().VisitAll(usage)
	for _, sub := range cmd.Commands() {
		a.renameTree(sub)
	}
}
