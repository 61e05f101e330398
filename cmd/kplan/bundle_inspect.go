package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/bundle"
)

// inspected is what a bundle has, for programs.
type inspected struct {
	Digest string `json:"digest"`
	bundle.Contents
}

func newBundleInspect(a *app) *cobra.Command {
	var output data.Format
	cmd := &cobra.Command{
		Use:   "inspect FILE|oci://HOST/REPOSITORY:TAG",
		Short: "Show what is in a bundle",
		Long: `List the files, charts, manifests and images of a bundle with their sizes and digests. Images without a size are named by the plan's objects, and are not
in the bundle. Nothing is unpacked.`,
		Example: `  kplan bundle inspect plan.tar
  kplan bundle inspect oci://registry.internal/plans/eso:1.0
  kplan bundle inspect plan.tar -o json | jq -r '.images[].name'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: planFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inspectBundle(cmd.Context(), args[0], output)
		},
	}
	addFormat(cmd, &output, "write it as json or yaml", data.JSON, data.YAML)
	a.addPlainHTTP(cmd)
	return cmd
}

func (a *app) inspectBundle(ctx context.Context, name string, output data.Format) error {
	b, err := a.openBundle(ctx, name)
	if err != nil {
		return err
	}
	if output != "" {
		return a.print(output, inspected{b.Root.Digest.String(), b.Contents})
	}
	rows := [][]string{{"KIND", "NAME", "VERSION", "SIZE", "DIGEST"}}
	for _, f := range b.Files {
		what := "file"
		if f.Path == b.Plan {
			what = "plan"
		}
		rows = append(rows, []string{what, f.Path, "", sizeText(f.Size), f.Digest})
	}
	for _, s := range b.Sources {
		rows = append(rows, []string{string(s.Kind), source.Public(words.Join("/", s.Repo, s.Name)), s.Found.Version, sizeText(s.Found.Size), s.Found.Digest})
	}
	for _, i := range b.Images {
		size, digest := "-", "-"
		if i.Digest != "" {
			size, digest = sizeText(i.Size), i.Digest
		}
		rows = append(rows, []string{"image", i.Name, strings.Join(i.Platforms, ","), size, digest})
	}
	for _, row := range rows {
		for c := range row {
			row[c] = words.Line(row[c])
		}
	}
	_, err = fmt.Fprintf(a.stdout, "plan %s, %s\n%s", words.Line(b.Name), b.Root.Digest, words.Table(rows, func(_, _ int, cell, pad string) string { return cell + pad }))
	return err
}

// sizeText writes a number of bytes for people.
func sizeText(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return fmt.Sprintf("%d B", n)
	case n < unit*unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/unit/unit)
}
