package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// shells are those that have a script for completion, with the name under which a
// package installs it.
var shells = []struct {
	file  string
	write func(root *cobra.Command, file string) error
}{
	{"kplan.bash", func(root *cobra.Command, file string) error { return root.GenBashCompletionFileV2(file, true) }},
	{"_kplan", (*cobra.Command).GenZshCompletionFile},
	{"kplan.fish", func(root *cobra.Command, file string) error { return root.GenFishCompletionFile(file, true) }},
	{"kplan.ps1", (*cobra.Command).GenPowerShellCompletionFileWithDesc},
}

// newMan is the command that releases take their man pages and completions from.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write man pages and completions for packages",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeShare(cmd.Root(), args[0])
		},
	}
}

// writeShare writes a man page of each command to dir/man, and a script for each shell
// to dir/completions. The same binary writes the same bytes.
func writeShare(root *cobra.Command, dir string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "kplan", Manual: "kplan", Date: builtOn()}
	if err := doc.GenManTree(root, header, man); err != nil {
		return fmt.Errorf("man pages: %w", err)
	}
	for _, s := range shells {
		if err := s.write(root, filepath.Join(completions, s.file)); err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
	}
	return nil
}

// builtOn is the day of the commit, and the epoch's first where that is not known: today
// would make pages of one commit differ.
func builtOn() *time.Time {
	t, err := time.Parse(time.RFC3339, readBuild().Date)
	if err != nil {
		t = time.Unix(0, 0).UTC()
	}
	return &t
}
