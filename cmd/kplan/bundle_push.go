package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/source/bundle"
)

func newBundlePush(a *app) *cobra.Command {
	var imagesTo string
	cmd := &cobra.Command{
		Use:   "push FILE oci://HOST/REPOSITORY:TAG",
		Short: "Bring a bundle to a registry",
		Long: `Copy a bundle with its images to a registry. What the registry has already is not sent again. 'kplan run oci://HOST/REPOSITORY:TAG' then runs it;
with @DIGEST behind the tag it must be the one with that digest.

With --images-to, each image goes to a repository of its own there as well, under the name that it had without its registry, and the new names are
printed: ghcr.io/org/app:1.0 is then HOST/org/app:1.0. Have the charts' values, or the container runtime's mirrors, name these.`,
		Example: `  kplan bundle push plan.tar oci://registry.internal/plans/eso:1.0
  kplan bundle push plan.tar oci://registry.internal/plans/eso:1.0 --images-to registry.internal/mirror`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"tar"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.pushBundle(cmd.Context(), args[0], args[1], strings.TrimSuffix(strings.TrimPrefix(imagesTo, ociScheme), "/"))
		},
	}
	cmd.Flags().StringVar(&imagesTo, "images-to", "", "copy the images to repositories below `HOST[/PATH]` as well")
	a.addPlainHTTP(cmd)
	return cmd
}

// pushBundle copies a bundle to a registry, and its images to where people look for them.
func (a *app) pushBundle(ctx context.Context, file, address, imagesTo string) error {
	if !strings.HasPrefix(address, ociScheme) || strings.Contains(address, "@") {
		return usagef("%s is no address of the form oci://HOST/REPOSITORY:TAG", address)
	}
	b, err := a.openBundle(ctx, file)
	if err != nil {
		return err
	}
	r, tag, err := a.repository(address)
	if err != nil {
		return err
	}
	if err := b.Copy(ctx, r, tag); err != nil {
		return fmt.Errorf("pushing to %s: %w", address, err)
	}
	fmt.Fprintf(a.stdout, "%s@%s\n", words.Clean(address), b.Root.Digest)
	for _, i := range b.Images {
		if imagesTo == "" || i.Digest == "" {
			continue
		}
		name, reference, err := bundle.ParseImage(i.Name)
		if err != nil {
			return err
		}
		_, path, _ := strings.Cut(name, "/")
		to := imagesTo + "/" + path
		r, _, err := a.repository(to)
		if err != nil {
			return err
		}
		if digest, ok := strings.CutPrefix(reference, "sha256:"); ok { // of some platforms only it has another digest
			reference = "sha256-" + digest
		}
		if err := b.CopyImage(ctx, i, r, reference); err != nil {
			return fmt.Errorf("pushing image %s to %s: %w", i.Name, to, err)
		}
		fmt.Fprintf(a.stdout, "image %s: %s:%s\n", words.Clean(i.Name), words.Clean(to), reference)
	}
	return nil
}
