package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // logins of kubeconfigs with the auth provider oidc

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/plan/redact"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/sops"
)

// app is what all commands share: the streams, and the flags of the root.
type app struct {
	name           string   // as the user calls it: kplan, or kubectl kplan
	commands       []string // names of the root's commands, see called
	stdin          io.Reader
	stdout, stderr io.Writer

	flags     *genericclioptions.ConfigFlags
	noColor   bool
	verbosity int
	logs      ui.Logs // which logs of pods are shown of a run

	started bool // a command runs; errors before that are the user's

	// hidden is what must not be shown of the plan that was read, see keep. Logs
	// are written by goroutines of libraries.
	hidden atomic.Pointer[redact.Set]
	// bundle is the one that the plan came from; nil for a plan on disk. See open.
	bundle *opened
	// fetched is what the command fetched for a plan, see sources, and fetching how.
	fetched    *source.Store
	fetchedFor *plan.Plan
	fetching   fetching
	// keys open files that are encrypted.
	keys *sops.Keyring
}

// load reads a plan. What is sensitive in it is not shown from then on.
func (a *app) load(path string, in load.Options) (*plan.Plan, error) {
	path, err := a.open(path, &in)
	if err != nil {
		return nil, err
	}
	in.Decrypter = a.keys
	p, err := load.File(path, in)
	if err != nil {
		return nil, err
	}
	a.keep(p)
	if err := load.CheckFiles(p); err != nil {
		return nil, err
	}
	return p, nil
}

// read is load for commands that run nothing: they do without the values of
// sensitive variables, and say so.
func (a *app) read(path string, in load.Options) (*plan.Plan, error) {
	in.Unknown = true
	p, err := a.load(path, in)
	if err != nil {
		return nil, err
	}
	for _, v := range p.Variables {
		if v.Deferred && v.Source == "" {
			fmt.Fprintf(a.stderr, "note: the sensitive variable %q has no value: kplan run needs one\n", v.Name)
		}
	}
	return p, nil
}

// outline is load for commands that ask only where a plan is locked and recorded: it
// takes the values of those variables alone on which that depends, and no files.
func (a *app) outline(path string, in load.Options) (*plan.Plan, error) {
	path, err := a.open(path, &in)
	if err != nil {
		return nil, err
	}
	in.Decrypter, in.Unknown, in.Unset = a.keys, true, true
	p, err := load.File(path, in)
	if err != nil {
		return nil, err
	}
	a.keep(p)
	return p, nil
}

// keep notes what must not be shown of a plan.
func (a *app) keep(p *plan.Plan) { a.hidden.Store(p.Sensitive) }

// secrets are what must not be shown; nil when no plan was read.
func (a *app) secrets() *redact.Set { return a.hidden.Load() }

func newApp(arg0 string, stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{name: nameOf(arg0), stdin: stdin, stdout: tty.Stdout{Writer: stdout}, stderr: stderr, keys: sops.NewKeyring(os.LookupEnv)}
	// Without caches on disk: a run shares its own in memory.
	a.flags = genericclioptions.NewConfigFlags(false)
	a.flags.CacheDir = nil
	// One bound for all requests would end watches and held requests as well:
	// steps have bounds of their own.
	a.flags.Timeout = nil
	return a
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "kplan",
		Short: "Run install plans that do not lose races with admission webhooks",
		Long: `kplan runs an install plan: a file that lists steps (helm, apply, wait, webhook, delete) and what each of them needs.
A request that an admission webhook cannot judge yet is held and sent again when it can, instead of failing the step.`,
		Example: `  kplan validate plan.yaml
  kplan graph plan.yaml
  kplan diff plan.yaml --var-file production.yaml
  kplan run plan.yaml --var-file production.yaml`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: a.name},
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
			a.logging()
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.BoolVar(&a.noColor, "no-color", false, "write without colours (also by the environment variable NO_COLOR)")
	flags.IntVarP(&a.verbosity, "v", "v", 0, "write logs of the Kubernetes client to stderr, up to this level (at most 7: beyond, they show Secrets)")
	flags.AddFlagSet(a.connection())
	flags.StringVar(a.flags.Context, "kube-context", "", "the same as --context")
	_ = flags.MarkHidden("kube-context") // it exists: the line above made it
	root.Version = readBuild().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(newInit(a), newRun(a), newDiff(a), newDown(a), newUnlock(a), newHold(a), newValidate(a), newRBAC(a), newWait(a), newWebhooks(a), newDoctor(a), newExplain(a), newImport(a), newExport(a), newStatus(a), newHistory(a), newReplay(a), newFleet(a))
	for _, offline := range []*cobra.Command{newLint(a), newLock(a), newBundle(a), newGraph(a), newSchema(a), newVars(a), newVersion(a), newMan()} {
		root.AddCommand(a.offline(offline))
	}
	a.rename(root)
	return root
}

// connection are the flags that say which cluster is meant, and as whom.
func (a *app) connection() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.flags.AddFlags(flags)
	return flags
}

// offline hides the flags of the connection from the help of a command that asks no
// cluster. They are taken all the same, so that an alias may hold them.
func (a *app) offline(cmd *cobra.Command) *cobra.Command {
	a.connection().VisitAll(func(f *pflag.Flag) {
		f.Hidden = true
		cmd.Flags().AddFlag(f)
	})
	return cmd
}

// colour reports whether to write colours to w. The flag wins over the environment.
func (a *app) colour(w io.Writer) bool { return !a.noColor && tty.Colour(w) }
