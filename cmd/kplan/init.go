package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/scaffold"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/schema"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// schemaFile is where init puts the schema, in the folder of the plan.
const schemaFile = "plan.schema.json"

// initOptions are the flags of kplan init.
type initOptions struct {
	*app
	force, fromCluster, everywhere bool
	schema                         string
}

func newInit(a *app) *cobra.Command {
	o := &initOptions{app: a}
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a plan to start from",
		Long: `Write a plan with comments and a step of each common kind to FILE (default plan.yaml), or to stdout with -.

Its first line tells editors where the schema of plans is: in plan.schema.json, which is written beside the plan and is
best committed with it. With --schema the line refers to another path or address, and no such file is written; --schema none
leaves the line out. After an update of kplan, refresh the file by 'kplan schema > plan.schema.json'.

With --from-cluster the plan has a helm step for each Helm release of the context's namespace, or of all with -A: chart,
version, namespace, and the values that were given for it. Where a chart came from is not kept in a cluster, so its
repo is left to be filled in. Values that look like secrets are not copied: they become variables, marked sensitive. A
release needs another one that defines kinds of its objects, or whose webhooks judge them; where two need each other, no
order is given. What is left to do is told at the end, as 'kplan validate' does.

A file that is there is not written over without --force.`,
		Example: `  kplan init
  kplan init deploy/plan.yaml
  kplan init - --schema none
  kplan init plan.yaml --from-cluster --context staging -A`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: planFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "plan.yaml"
			if len(args) > 0 {
				file = args[0]
			}
			return o.run(cmd.Context(), file)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.force, "force", false, "write over files that are there")
	flags.BoolVar(&o.fromCluster, "from-cluster", false, "write a step for each Helm release of the cluster")
	flags.BoolVarP(&o.everywhere, "all-namespaces", "A", false, "with --from-cluster: the releases of all namespaces")
	flags.StringVar(&o.schema, "schema", schemaFile, "the `path` or address of the schema for the plan's first line, or none")
	complete(cmd, "schema", schemaFile, "none")
	return cmd
}

func (o *initOptions) run(ctx context.Context, file string) error {
	if o.everywhere && !o.fromCluster {
		return usagef("-A is for --from-cluster")
	}
	if strings.ContainsAny(o.schema, " \t\r\n") {
		return usagef("--schema %q: no path or address that a comment can have", o.schema)
	}
	if file != "-" && !o.force {
		// Before a cluster is asked; the file is made so that nothing is lost all the same.
		if _, err := os.Lstat(file); err == nil {
			return exists(file)
		}
	}
	reference := o.schema
	if reference == "none" {
		reference = ""
	}
	text := scaffold.Blank(reference)
	var told []string
	if o.fromCluster {
		var err error
		if text, told, err = o.releases(ctx, file, reference); err != nil {
			return err
		}
	}
	if file == "-" {
		if _, err := o.stdout.Write(text); err != nil {
			return fmt.Errorf("writing the plan: %w", err)
		}
	} else if err := o.write(file, text); err != nil {
		return err
	}
	for _, line := range told {
		fmt.Fprintln(o.stderr, words.Clean(line))
	}
	o.todo(file, text)
	return nil
}

// releases is a plan of the cluster's releases, and what to say about it.
func (o *initOptions) releases(ctx context.Context, file, reference string) (text []byte, told []string, err error) {
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	found, problems := analyze.Releases(ctx, o.flags, userAgent(), o.everywhere)
	if len(found) == 0 {
		if problems != nil {
			return nil, nil, stopped(ctx, problems)
		}
		if o.everywhere {
			return nil, nil, usagef("the cluster has no Helm releases")
		}
		return nil, nil, &usageError{errors.New("there are no Helm releases in the namespace"), "name another one with -n, or take all with -A"}
	}
	for _, p := range split(problems) {
		told = append(told, "warning: "+p.Error())
	}
	folder := "releases"
	if full, err := filepath.Abs(file); err == nil && file != "-" {
		folder = filepath.Base(filepath.Dir(full))
	}
	text, secrets, err := scaffold.Releases(folder, reference, found)
	if err != nil {
		return nil, nil, err
	}
	if n := len(secrets); n > 0 {
		told = append(told, "not copied, as they look like secrets: "+words.Count(n, "value")+"; look through the others before you commit the plan")
	}
	return text, told, nil
}

// write writes the plan, and the schema beside it.
func (o *initOptions) write(file string, text []byte) error {
	if err := create(file, text, o.force); err != nil {
		return err
	}
	wrote := file
	if o.schema == schemaFile {
		beside := filepath.Join(filepath.Dir(file), schemaFile)
		switch err := create(beside, schema.Plan, o.force); {
		case err == nil:
			wrote += " and " + beside
		case errors.Is(err, fs.ErrExist):
			if was, e := os.ReadFile(beside); e == nil && !bytes.Equal(was, schema.Plan) {
				fmt.Fprintf(o.stderr, "%s is of another version of kplan: refresh it by kplan schema > %s\n", words.Clean(beside), words.Clean(beside))
			}
		default:
			return err
		}
	}
	fmt.Fprintf(o.stderr, "wrote %s\n", words.Clean(wrote))
	return nil
}

// create writes a file that is not there, or with force any.
func create(file string, text []byte, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(file, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return exists(file)
	}
	if err != nil {
		return &usageError{err, ""}
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// exists says that a file is in the way.
func exists(file string) error {
	return &usageError{fmt.Errorf("%s: %w", file, fs.ErrExist), "write over it with --force, or name another file"}
}

// todo says what is to be filled in before the plan is valid.
func (o *initOptions) todo(file string, text []byte) {
	_, err := load.Parse(file, text, load.Options{})
	faults, ok := errors.AsType[document.Diagnostics](err)
	if !ok {
		return
	}
	fmt.Fprintf(o.stderr, "%s to fill in:\n", words.Count(len(faults), "place"))
	for _, d := range faults {
		fmt.Fprintf(o.stderr, "  %s: %s\n", words.Clean(d.Pos.String()), d.Message)
	}
}
