package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/exporting"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/imported"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet/export"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan/load"
)

// objectsFile is the file of the objects in the folder of -o.
const objectsFile = "objects.yaml"

// exportRun is one call of kplan export.
type exportRun struct {
	*app
	export.Target
	inputs  *load.Options
	dir     string
	report  string
	force   bool
	image   string
	account string
	git     export.Git
}

// exportExamples are those of the help, by target.
var exportExamples = map[string]string{
	"argo-workflows": `  kplan export argo-workflows plan.yaml --set eso_version=0.11.0 | kubectl create -f -
  kplan export argo-workflows fleet.yaml --context management -o workflow`,
	"tekton": `  kplan export tekton plan.yaml -o tekton
  kplan export tekton fleet.yaml --context management --namespace ci --service-account installer`,
	"flux": `  kplan export flux plan.yaml -o clusters/production --git-path clusters/production
  kplan export flux fleet.yaml --context management -o fleet --git-repository flux-system/fleet --git-path fleet
  kplan export flux plan.yaml -o flux --report markdown > lost.md`,
	"argocd": `  kplan export argocd plan.yaml -o apps --git-repository https://git.example.com/apps.git --git-path apps
  kplan export argocd fleet.yaml --context management -o apps --git-repository https://git.example.com/apps.git --git-revision main`,
	"jobs": `  kplan export jobs plan.yaml | kubectl apply -f -
  kplan export jobs fleet.yaml --context management --namespace kplan | kubectl apply -f -`,
}

func newExport(a *app) *cobra.Command {
	var names []string
	for _, t := range export.Targets {
		names = append(names, t.Name)
	}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a plan or a fleet for an engine that you already run",
		Long: `Write a plan, or a fleet file, as objects of another engine: ` + strings.Join(names, ", ") + `.

Pods of argo-workflows, tekton and jobs run kplan itself: all of the plan holds there, and of a fleet what the engine knows of waves. flux and
argocd install the same charts and manifests in their own way. Whatever is lost is told on stderr with its line and what to do about it; nothing
is left out in silence. Nothing is applied.`,
		Example: `  kplan export jobs plan.yaml | kubectl apply -f -
  kplan export flux plan.yaml -o clusters/production`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("name the engine that it is for"), "write kplan export " + strings.Join(names, "|") + " PLAN|FLEET"}
		},
	}
	for _, t := range export.Targets {
		cmd.AddCommand(newExportTo(a, t))
	}
	return cmd
}

func newExportTo(a *app, t export.Target) *cobra.Command {
	r := &exportRun{app: a, Target: t}
	cmd := &cobra.Command{
		Use:   t.Name + " [PLAN|FLEET]",
		Short: "Write a plan or a fleet for " + t.Title,
		Long: t.About + `

The objects go to stdout, or with -o to ` + objectsFile + ` in a folder, with manifests for a Git repository beside it. Without PLAN or FLEET it is
plan.yaml of the current folder. No cluster is asked for a plan. For a fleet its inventories are, and the kubeconfigs of its clusters are read, but
the clusters themselves are not asked. --namespace is the namespace of the objects (default ` + t.Namespace + `).

What is not in the objects goes to stderr, or to stdout with --report.

Exit codes: 0 written, 1 an inventory cannot be asked, 2 bad plan, fleet or usage.`,
		Example: exportExamples[t.Name],
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("one plan or fleet only, not %d: %s", len(args), strings.Join(args, " "))
			}
			return nil
		},
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.make(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&r.dir, "output", "o", "", "write "+objectsFile+" and the files beside it to this `folder` (default: the objects to stdout)")
	flags.StringVar(&r.report, "report", "", "write what is lost to stdout: `table`, json or markdown")
	flags.BoolVar(&r.force, "force", false, "write over files that are there")
	if t.Pods {
		flags.StringVar(&r.image, "image", "", "the container image of kplan (default: that of this version)")
		flags.StringVar(&r.account, "service-account", "kplan", "the `name` of the pods' ServiceAccount")
	} else {
		about := "the `name` of Flux's GitRepository, or NAMESPACE/NAME (default flux-system/flux-system)"
		if t.Name == "argocd" {
			about = "the `address` of the Git repository that has the manifests"
			flags.StringVar(&r.git.Revision, "git-revision", "", "the branch, tag or commit of it (default HEAD)")
		}
		flags.StringVar(&r.git.Repository, "git-repository", "", about)
		flags.StringVar(&r.git.Path, "git-path", "", "the `path` in the Git repository at which the folder of -o will be (default: its root)")
	}
	r.inputs = addInputsOf(cmd, func(args []string) string {
		if file := namedPlan(args); isFleet(file) {
			return fleetload.PlanOf(file)
		}
		return namedPlan(args)
	})
	complete(cmd, "report", words.Names(imported.Formats)...)
	_ = cmd.MarkFlagDirname("output") // it exists
	return cmd
}

// isFleet reports whether a file says that it is a fleet.
func isFleet(file string) bool {
	text, err := readBounded(file)
	var head struct{ Kind string }
	return err == nil && yaml.Unmarshal(text, &head) == nil && head.Kind == "Fleet"
}

func (r *exportRun) make(ctx context.Context, args []string) error {
	switch {
	case r.report != "" && !slices.Contains(imported.Formats, data.Format(r.report)):
		return usagef("there is no report %q, only table, json and markdown", r.report)
	case r.report != "" && r.dir == "":
		return &usageError{errors.New("both the objects and the report would go to stdout"), "name a folder for the objects: -o FOLDER"}
	case r.Pods && r.image == "":
		if r.image = releasedImage(); r.image == "" {
			return &usageError{errors.New("this kplan is no released version, so there is no image of it"), "name one: --image ghcr.io/kplan-dev/kplan:VERSION"}
		}
	}
	path, err := r.choosePlan(args, false)
	if err != nil {
		return err
	}
	in, err := r.read(ctx, path)
	if err != nil {
		return err
	}
	in.Namespace, in.Image, in.ServiceAccount, in.Git, in.HelmEngine = *r.flags.Namespace, r.image, r.account, r.git, r.inputs.HelmEngine
	result, err := export.Export(r.Target, *in)
	if err != nil {
		return &usageError{err: err}
	}
	return r.write(path, result)
}

// releasedImage is the image of this version; "" when it is no release.
func releasedImage() string {
	version := readBuild().Version
	if !strings.HasPrefix(version, "v") || strings.Contains(version, "+") || strings.Contains(version, "-0.") {
		return ""
	}
	return fleetImage + ":" + version
}

// write writes the objects and what is beside them, and tells of both.
func (r *exportRun) write(path string, result *export.Result) error {
	text, err := stream(result.Objects)
	if err != nil {
		return err
	}
	told := exporting.Report{Target: r.Name, Of: path, Findings: result.Findings, First: result.First}
	for _, o := range result.Objects {
		metadata, _ := o["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		if name == "" {
			name, _ = metadata["generateName"].(string)
		}
		told.Objects = append(told.Objects, fmt.Sprintf("%s/%s/%s", o["kind"], metadata["namespace"], name))
	}
	switch {
	case r.dir != "":
		if told.Files, err = r.writeFiles(result.Files, text); err != nil {
			return err
		}
	case len(result.Files) > 0:
		return &usageError{fmt.Errorf("%s for a Git repository belong to the objects", words.Count(len(result.Files), "file")), "name a folder for all of it: -o FOLDER"}
	default:
		if _, err := r.stdout.Write(text); err != nil {
			return fmt.Errorf("writing the objects: %w", err)
		}
	}
	if r.report == "" {
		told.Lines(r.stderr)
	} else if err := told.Write(r.stdout, data.Format(r.report)); err != nil {
		return err
	}
	told.Summary(r.stderr)
	return nil
}

// stream is a stream of YAML documents.
func stream(objects []map[string]any) ([]byte, error) {
	var all bytes.Buffer
	for i, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("writing the objects: %w", err)
		}
		if i > 0 {
			all.WriteString("---\n")
		}
		all.Write(text)
	}
	return all.Bytes(), nil
}

// writeFiles writes all files or, if one of them is there already, none.
func (r *exportRun) writeFiles(files map[string][]byte, objects []byte) ([]string, error) {
	all := map[string][]byte{filepath.Join(r.dir, objectsFile): objects}
	names := []string{filepath.Join(r.dir, objectsFile)}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		below := strings.TrimPrefix(strings.TrimPrefix(name, strings.Trim(filepath.ToSlash(r.git.Path), "/")), "/")
		file := filepath.Join(r.dir, filepath.FromSlash(below))
		all[file], names = files[name], append(names, file)
	}
	for _, name := range names {
		if _, err := os.Lstat(name); err == nil && !r.force {
			return nil, exists(name)
		}
	}
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, &usageError{err: err}
		}
		if err := create(name, all[name], r.force); err != nil {
			return nil, err
		}
	}
	return names, nil
}
