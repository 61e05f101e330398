package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/imported"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/argocd"
	"github.com/kplan-dev/kplan/foreign/flux"
	"github.com/kplan-dev/kplan/foreign/helmfile"
	"github.com/kplan-dev/kplan/foreign/k0rdent"
	scripts "github.com/kplan-dev/kplan/foreign/script"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/plan/load"
)

// importer makes a plan of the files of one tool.
type importer struct {
	// tool is its name on the command line, and title that for people.
	tool, title string
	// long and example are of its help.
	long, example string
	// folder returns the files of a folder that are meant when it is named.
	folder func(dir string) ([]string, error)
	run    func(foreign.Input) (*foreign.Result, error)
}

// importers are all of them, in the order of the help.
var importers = []importer{
	{
		tool: "helmfile", title: "helmfile", long: helmfile.About,
		example: `  kplan import helmfile helmfile.yaml -o plan.yaml
  kplan import helmfile . -o deploy/plan.yaml --report markdown > import.md
  helmfile -e production build --embed-values | kplan import helmfile - -o plan.yaml`,
		folder: helmfileFolder, run: helmfile.Import,
	},
	{
		tool: "flux", title: "Flux", long: flux.About,
		example: `  kplan import flux clusters/production -o plan.yaml
  kustomize build apps/production | kplan import flux - -o plan.yaml
  kubectl get helmreleases,helmrepositories,ocirepositories -A -o yaml | kplan import flux -`,
		folder: objectFolder, run: flux.Import,
	},
	{
		tool: "argocd", title: "Argo CD", long: argocd.About,
		example: `  kplan import argocd apps/ -o plan.yaml
  kubectl get applications -n argocd -o yaml | kplan import argocd - -o plan.yaml --report markdown > import.md`,
		folder: objectFolder, run: argocd.Import,
	},
	{
		tool: "k0rdent", title: "k0rdent", long: k0rdent.About,
		example: `  kplan import k0rdent clusters/ templates/ -o plan.yaml
  kubectl get multiclusterservices,servicetemplates,helmrepositories -A -o yaml | kplan import k0rdent -`,
		folder: objectFolder, run: k0rdent.Import,
	},
	{
		tool: "script", title: "shell scripts and Makefiles", long: scripts.About,
		example: `  kplan import script install.sh -o plan.yaml
  kplan import script Makefile -o plan.yaml
  cat prepare.sh install.sh | kplan import script -`,
		run: scripts.Import,
	},
}

// importRun is one call of kplan import.
type importRun struct {
	*app
	importer
	output string
	name   string
	report string
	force  bool
}

func newImport(a *app) *cobra.Command {
	var tools []string
	for _, i := range importers {
		tools = append(tools, i.tool)
	}
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Make a plan of what another tool installs by",
		Long: `Read the files of another tool and write a plan that installs the same: ` + strings.Join(tools, ", ") + `.

Each field is either in the plan or told of on stderr, with file, line and what to do about it; nothing is left out in silence.
The plan is checked as 'kplan validate' and 'kplan lint' do; variables that somebody has to give are listed. No cluster is asked, no program is run, no template is
rendered. The page of each tool says what it reads.`,
		Example: `  kplan import helmfile helmfile.yaml -o plan.yaml
  kplan import script install.sh`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &usageError{errors.New("name the tool whose files are read"), "write kplan import " + strings.Join(tools, "|") + " FILE"}
		},
	}
	for _, i := range importers {
		cmd.AddCommand(a.offline(newImportOf(a, i)))
	}
	return cmd
}

func newImportOf(a *app, i importer) *cobra.Command {
	r := &importRun{app: a, importer: i}
	cmd := &cobra.Command{
		Use:   i.tool + " FILE…|-",
		Short: "Make a plan of the files of " + i.title,
		Long: i.long + `

The plan goes to stdout, or to a file with -o; what stands beside it, such as var files, is written only then. Paths in the plan are
relative to its file. A value that looks like a secret is not copied: a sensitive variable stands for it. What is not in the plan
goes to stderr, or to stdout with --report.

Exit codes: 0 the plan was written, 2 it was not, or has to be filled in before it is valid.`,
		Example: i.example,
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return r.make(args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&r.output, "output", "o", "-", "write the plan to this `file`; - is stdout")
	flags.StringVar(&r.name, "name", "", "the plan's `name` (default: as the files say, else imported)")
	flags.StringVar(&r.report, "report", "", "write what is not in the plan to stdout: `table`, json or markdown")
	flags.BoolVar(&r.force, "force", false, "write over files that are there")
	complete(cmd, "report", words.Names(imported.Formats)...)
	return cmd
}

func (r *importRun) make(args []string) error {
	switch {
	case r.report != "" && !slices.Contains(imported.Formats, data.Format(r.report)):
		return usagef("there is no report %q, only table, json and markdown", r.report)
	case r.report != "" && r.output == "-":
		return &usageError{errors.New("both the plan and the report would go to stdout"), "name the plan's file: -o plan.yaml"}
	}
	in, err := r.input(args)
	if err != nil {
		return err
	}
	result, err := r.run(in)
	if err != nil {
		return &usageError{err: err}
	}
	result.Sort(in.Files)
	return r.write(result)
}

// write writes the plan and what is beside it, and tells of both.
func (r *importRun) write(result *foreign.Result) error {
	text, err := result.Text(r.planName())
	faults, invalid := errors.AsType[document.Diagnostics](err)
	if err != nil && !invalid {
		return err
	}
	told := imported.Report{Tool: r.tool, Plan: r.output, Steps: len(result.Plan.Steps), Findings: result.Findings, First: result.First, Faults: finding.Of(faults)}
	if r.output == "-" {
		if len(result.Files) > 0 {
			return &usageError{fmt.Errorf("the plan needs %s beside it", words.Count(len(result.Files), "file")), "name the plan's file: -o plan.yaml"}
		}
		if _, err := r.stdout.Write(text); err != nil {
			return fmt.Errorf("writing the plan: %w", err)
		}
	} else {
		if told.Files, err = r.writeFiles(result.Files, text); err != nil {
			return err
		}
	}
	if !invalid {
		var given []string
		told.Faults, given = examine(r.planName(), text)
		told.First = append(unknownVars(given, result.First), told.First...)
	}
	return r.tell(told)
}

// tell writes the report and says what is to be done.
func (r *importRun) tell(told imported.Report) error {
	if r.report == "" {
		told.Lines(r.stderr)
	} else if err := told.Write(r.stdout, data.Format(r.report)); err != nil {
		return err
	}
	told.Summary(r.stderr)
	if len(told.Faults) > 0 {
		return shown(usagef("the plan has to be filled in"))
	}
	return nil
}

func (r *importRun) planName() string {
	if r.output == "-" {
		return "plan.yaml"
	}
	return r.output
}

// writeFiles writes all files or, if one of them is there already, none.
func (r *importRun) writeFiles(files []foreign.File, text []byte) ([]string, error) {
	dir := filepath.Dir(r.output)
	all := []foreign.File{{Name: r.output, Data: text}}
	var names []string
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		names = append(names, name)
		all = append(all, foreign.File{Name: name, Data: f.Data})
	}
	for _, f := range all {
		if _, err := os.Lstat(f.Name); err == nil && !r.force {
			return nil, exists(f.Name)
		}
	}
	for _, f := range slices.Backward(all) { // the plan last: what it names is there
		if f.Name != r.output {
			if err := os.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
				return nil, &usageError{err: err}
			}
		}
		if err := create(f.Name, f.Data, r.force); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// examine returns what keeps the plan that is the text of a file from being run as it is, and
// the names of its variables without a value. These are no fault: they are given to the run.
func examine(file string, text []byte) (faults []finding.Finding, given []string) {
	full, err := filepath.Abs(file)
	if err != nil {
		return []finding.Finding{{Pos: document.Pos{File: file}, Severity: finding.Error, Message: err.Error()}}, nil
	}
	in := load.Options{Unknown: true, Env: func(string) (string, bool) { return "", false }, Files: map[string][]byte{full: text}}
	p, err := load.File(file, in)
	diagnostics, ok := errors.AsType[document.Diagnostics](err)
	if ok {
		if diagnostics = slices.DeleteFunc(diagnostics, func(d document.Diagnostic) bool { return d.Code == document.CodeVariable }); len(diagnostics) > 0 {
			return finding.Of(diagnostics), nil
		}
		in.Unset = true
		p, err = load.File(file, in)
	}
	if err == nil {
		err = load.CheckFiles(p)
	}
	if diagnostics, ok := errors.AsType[document.Diagnostics](err); ok {
		return finding.Of(diagnostics), nil
	}
	if err != nil {
		return []finding.Finding{{Pos: document.Pos{File: file}, Severity: finding.Error, Message: err.Error()}}, nil
	}
	for _, v := range p.Variables {
		if v.Source == "" {
			given = append(given, v.Name)
		}
	}
	return slices.DeleteFunc(lint.Run(lint.Input{Plan: p}), func(f finding.Finding) bool { return f.Severity != finding.Error }), given
}

// unknownVars says that variables have to be given, but for those of which the importer has
// said so with more words.
func unknownVars(names, told []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(told, func(text string) bool {
			before, after, said := strings.Cut(text, "the variable "+name)
			return said && before != "" && (after == "" || !strings.ContainsAny(after[:1], "-_0123456789abcdefghijklmnopqrstuvwxyz"))
		})
	})
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("give values to %s: by --set NAME=VALUE or a --var-file", strings.Join(names, ", "))}
}
