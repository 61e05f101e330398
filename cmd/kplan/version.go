package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
)

// version is set when a release is linked: -X main.version=v1.2.3.
var version string

// build says which kplan this is.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"` // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Sum is the module's checksum, as in go.sum. Only what go install built of a
	// version has it.
	Sum string `json:"sum,omitempty"`
	// Modules are the versions of told that are linked in, by path.
	Modules map[string]string `json:"modules,omitempty"`
}

// told are the modules whose versions decide what kplan does to a cluster.
var told = []string{"helm.sh/helm/v3", "helm.sh/helm/v4", "k8s.io/client-go"}

func newVersion(a *app) *cobra.Command {
	var output data.Format
	var short bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which kplan this is",
		Long: `Say which kplan this is: its version, the commit it was built of, the Go toolchain, and the platform.
With -o json and yaml also the commit's time, and the versions of Helm and of the Kubernetes client that are linked in.`,
		Example: `  kplan version
  kplan version --short
  kplan version -o json | jq -r .version`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			switch {
			case short && output != "":
				return usagef("--short and -o exclude each other")
			case short:
				_, err := fmt.Fprintln(a.stdout, b.Version)
				return err
			case output != "":
				return a.print(output, b)
			}
			_, err := fmt.Fprintln(a.stdout, b)
			return err
		},
	}
	cmd.Flags().BoolVar(&short, "short", false, "write the version alone")
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
	b.Sum = info.Main.Sum
	b.Modules = modules(info.Deps)
	return b
}

// modules are the versions of told among what is linked in.
func modules(linked []*debug.Module) map[string]string {
	m := map[string]string{}
	for _, d := range linked {
		if !slices.Contains(told, d.Path) {
			continue
		}
		if d.Replace != nil {
			d = d.Replace
		}
		m[d.Path] = d.Version
	}
	return m
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
