package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/bundle"
	"github.com/kplan-dev/kplan/source/lock"
	"github.com/kplan-dev/kplan/source/sops"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// bundleOptions are the flags of bundle.
type bundleOptions struct {
	*app
	inputs    *load.Options
	output    string
	images    bool
	platforms []string
}

func newBundle(a *app) *cobra.Command {
	o := &bundleOptions{app: a}
	cmd := &cobra.Command{
		Use:   "bundle [PLAN]",
		Short: "Put a plan and all that it needs into one file, for places without a network",
		Long: `Write a bundle: a tar archive with one OCI image layout that has the plan and the files that it reads, the charts and manifests that it fetches, its
lock file, and a list of the container images that its objects name. With --images these are in it too. Without PLAN it is plan.yaml of the current
folder. No cluster is asked.

'kplan run plan.tar' runs a bundle, as do diff, validate, graph, lint, vars, status and down; 'kplan run oci://HOST/REPOSITORY:TAG' one that
'kplan bundle push' brought to a registry. Nothing else is fetched then: what the bundle does not have fails. Values that --var-file and --set give here are in the
bundle, those of sensitive variables are not: give them to the run, as environment variables for example. Kubeconfigs are in no bundle.

Images are those of pods in all kinds of workloads, of fields named image in custom resources, and those that charts list in annotations
(artifacthub.io/images, helm.sh/images). What an operator starts by itself is not known. --platform takes images for some platforms only.

The same inputs make the same bundle, byte for byte.`,
		Example: `  kplan bundle plan.yaml -o plan.tar
  kplan bundle plan.yaml -o plan.tar --var-file production.yaml --images --platform linux/amd64
  kplan bundle inspect plan.tar
  kplan bundle push plan.tar oci://registry.internal/plans/eso:1.0
  kplan run plan.tar
  kplan run oci://registry.internal/plans/eso:1.0`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addInputs(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "", "write the bundle to this `file` (default: the plan's name, .tar)")
	flags.BoolVar(&o.images, "images", false, "put the container images into the bundle too")
	flags.StringSliceVar(&o.platforms, "platform", nil, "of images take only these `platforms`, such as linux/amd64 (default: all)")
	flags.BoolVar(&a.fetching.locked, "locked", false, "fail when something that the plan fetches is not in its lock file (see 'kplan lock')")
	o.addMap(cmd)
	complete(cmd, "platform", "linux/amd64", "linux/arm64")
	cmd.AddCommand(newBundlePush(a), newBundleInspect(a))
	return cmd
}

// check looks at the flags.
func (o *bundleOptions) check(path string) error {
	if isBundle(path) {
		return usagef("%s is a bundle already", path)
	}
	if o.output == "" {
		o.output = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) + ".tar"
	}
	if !bundle.IsFile(o.output) {
		return &usageError{err: fmt.Errorf("--output %s: the name of a bundle ends in .tar", o.output), hint: "it is how kplan run tells it from a plan"}
	}
	if len(o.platforms) > 0 && !o.images {
		return usagef("--platform is for --images")
	}
	for _, p := range o.platforms {
		if _, err := bundle.Platform(p); err != nil {
			return usagef("--platform: %w", err)
		}
	}
	return nil
}

func (o *bundleOptions) run(ctx context.Context, args []string) error {
	path, err := o.choosePlan(args, false)
	if err != nil {
		return err
	}
	if err := o.check(path); err != nil {
		return err
	}
	p, err := o.read(path, *o.inputs)
	if err != nil {
		return &usageError{err: err}
	}
	if err := refuseOver("--output "+o.output, o.output, p.Reads()); err != nil {
		return err
	}
	for _, s := range p.Steps {
		if err := relocatable(s); err != nil {
			return err
		}
	}
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	from, err := o.sources(p)
	if err != nil {
		return err
	}
	return stopped(ctx, o.make(ctx, p, from))
}

// make fetches what the plan needs, and writes the bundle.
func (o *bundleOptions) make(ctx context.Context, p *plan.Plan, from *source.Store) error {
	later, err := analyze.Fetch(ctx, p, from, nil)
	if err != nil {
		return err
	}
	for _, text := range later {
		fmt.Fprintf(o.stderr, "warning: %s: it is not in the bundle\n", o.oneLine(text))
	}
	c, err := o.contents(ctx, p, from)
	if err != nil {
		return err
	}
	return o.write(ctx, c, from)
}

// contents gathers what goes into the bundle, but for the images themselves.
func (o *bundleOptions) contents(ctx context.Context, p *plan.Plan, from *source.Store) (*bundle.Contents, error) {
	if err := o.refuseSecrets(p); err != nil {
		return nil, err
	}
	c := &bundle.Contents{Name: p.Metadata.Name}
	c.Set, c.Again = openPairs(p, o.inputs.Set)
	images, err := analyze.Images(ctx, p, from)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	o.warn("not all images are known", err)
	for _, i := range images {
		c.Images = append(c.Images, bundle.Image{Name: i.Name, Steps: i.Steps})
	}
	locked, err := o.readLock(p)
	if errors.Is(err, fs.ErrNotExist) {
		locked, err = &lock.File{Mask: o.secrets().Text}, nil
	}
	if err != nil {
		return nil, &usageError{err: err}
	}
	for _, f := range from.Fetched() {
		if _, ok := locked.Find(f.Reference); !ok {
			locked.Put(lock.Of(f))
		}
		c.Sources = append(c.Sources, bundle.SourceOf(f, locked.Key(f.Reference)))
	}
	text, err := locked.Marshal(p.File)
	if err != nil {
		return nil, err
	}
	return c, o.addFiles(c, p, text)
}

// refuseSecrets refuses to put the value of a sensitive variable into a bundle that stands
// in a var file in plain text, even where another value wins over it.
func (o *bundleOptions) refuseSecrets(p *plan.Plan) error {
	for _, file := range o.inputs.VarFiles {
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var values map[string]any
		if err := yaml.Unmarshal(src, &values); err != nil {
			return fmt.Errorf("looking for secrets in %s: it is no mapping of variables", file) // the cause may show values
		}
		encrypted := sops.IsEncrypted(src)
		for _, v := range p.Variables {
			value, ok := values[v.Name]
			if !ok || !v.Sensitive || encrypted && isSealed(value) {
				continue
			}
			return &usageError{
				err:  fmt.Errorf("the var file %s has the sensitive variable %q in plain text, and would be in the bundle", file, v.Name),
				hint: "encrypt the file with SOPS, or give the variable to the run only, by --set or an environment variable",
			}
		}
	}
	return nil
}

// isSealed reports whether SOPS has encrypted all of a value. It leaves nulls and empty
// texts as they are.
func isSealed(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || strings.HasPrefix(v, "ENC[AES256_GCM,") && strings.HasSuffix(v, "]")
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !isSealed(item) })
	case map[string]any:
		for _, item := range v {
			if !isSealed(item) {
				return false
			}
		}
		return true
	}
	return false
}

// addFiles adds the files that the plan reads, below the folder that has them all.
func (o *bundleOptions) addFiles(c *bundle.Contents, p *plan.Plan, locked []byte) error {
	files, withheld, err := filesFor(p, o.output, o.flags.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence())
	if err != nil {
		return err
	}
	planFile := absolute(p.File)
	all := append(slices.Clone(files), planFile)
	for _, f := range o.inputs.VarFiles {
		all = append(all, absolute(f))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	base := commonFolder(append(slices.Clone(all), withheld...))
	name := func(path string) string {
		rel, err := filepath.Rel(base, path)
		if err != nil { // all of them are below it
			return path
		}
		return filepath.ToSlash(rel)
	}
	for _, path := range withheld {
		c.Withheld = append(c.Withheld, name(path))
	}
	slices.Sort(c.Withheld)
	lockFile := absolute(lock.Path(p.File))
	for _, path := range all {
		if path == lockFile {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		c.Files = append(c.Files, bundle.File{Path: name(path), Bytes: text})
	}
	c.Files = append(c.Files, bundle.File{Path: name(lockFile), Bytes: locked})
	c.Plan = name(planFile)
	for _, f := range o.inputs.VarFiles {
		c.VarFiles = append(c.VarFiles, name(absolute(f)))
	}
	return nil
}

// write takes the images, and writes the bundle.
func (o *bundleOptions) write(ctx context.Context, c *bundle.Contents, from *source.Store) (err error) {
	layout, err := bundle.NewLayout(filepath.Dir(o.output))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, layout.Remove()) }()
	if o.images {
		for i := range c.Images {
			if err := o.addImage(ctx, layout, from, &c.Images[i]); err != nil {
				return err
			}
		}
	}
	root, err := bundle.Make(ctx, layout, *c)
	if err != nil {
		return err
	}
	if err := layout.Write(ctx, o.output, root); err != nil {
		return err
	}
	if len(c.Again) > 0 {
		fmt.Fprintf(o.stderr, "note: give the run the sensitive variables: %s\n", words.List(c.Again, 10))
	}
	images := ""
	if n := len(c.Images); n > 0 && !o.images {
		images = ", " + words.Count(n, "image") + " not in it"
	} else if n > 0 {
		images = ", " + words.Count(n, "image")
	}
	_, err = fmt.Fprintf(o.stdout, "%s: %s, %s fetched%s, %s\n", words.Clean(o.output), words.Count(len(c.Files), "file"), words.Count(len(c.Sources), "source"), images, root.Digest)
	return err
}

// addImage puts one image into the layout.
func (o *bundleOptions) addImage(ctx context.Context, to *bundle.Layout, from *source.Store, i *bundle.Image) error {
	name, reference, err := bundle.ParseImage(i.Name)
	if err != nil {
		return err
	}
	r, err := from.Repository(name, isLoopback(name))
	if err != nil {
		return err
	}
	fmt.Fprintf(o.stderr, "image %s\n", o.oneLine(i.Name))
	if err := bundle.AddImage(ctx, to, r, i, reference, o.platforms); err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	return nil
}
