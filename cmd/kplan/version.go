package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
)

// version is set when a release is linked: -X main.version=v1.2.3.
var version string

// build says which kplan this is.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	var output data.Format
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which kplan this is",
		Example: `  kplan version
  kplan version -o json | jq -r .version`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if output != "" {
				return a.print(output, b)
			}
			_, err := fmt.Fprintln(a.stdout, b)
			return err
		},
	}
	addFormat(cmd, &output, "write it as json or yaml", data.JSON, data.YAML)
	return cmd
}

// readBuild takes what the linker and the Go toolchain left in the binary.
func readBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	s := "kplan " + b.Version
	if b.Commit != "" {
		s += " (" + b.Commit[:min(len(b.Commit), 12)]
		if b.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return s + " " + b.Go + " " + b.Platform
}

// userAgent names this program to servers.
func userAgent() string {
	b := readBuild()
	return fmt.Sprintf("kplan/%s (%s)", b.Version, b.Platform)
}
