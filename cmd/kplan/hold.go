package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/child"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/footprint"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/holdproxy"
)

// holdOptions are the flags of hold: how a run of one step is shown, and where it
// serves.
type holdOptions struct {
	runOptions
	proxy         holdproxy.Config
	kubeconfigOut string
	tokenOut      string
}

func newHold(a *app) *cobra.Command {
	o := &holdOptions{runOptions: runOptions{app: a, parallel: 1, inputs: &load.Options{}}}
	cmd := &cobra.Command{
		Use:   "hold [flags] -- COMMAND [ARGS...]",
		Short: "Run any command that installs, and hold its requests for admission webhooks",
		Long: `Run a command whose requests to Kubernetes are held while an admission webhook cannot judge them, and sent again the moment it can:
helm, helmfile, kubectl apply, Terraform, Pulumi or whatever reads a kubeconfig. It sees one slow request instead of an error.

The command gets a kubeconfig of its own (KUBECONFIG, KUBE_CONFIG_PATH and KUBE_CONFIG_PATHS) with the same contexts, which lead through a proxy
on a loopback port of this machine. Credentials stay with kplan: the kubeconfig has a token that is made for this run. The command's streams, terminal, signals and exit
code are its own; kubeconfig and proxy are gone afterwards.

While the command begins it is looked for webhooks that fail requests and that nobody is behind, and whether kplan may see when webhooks answer; that is told
on stderr. With --preflight fail that comes first, and the command is not run if anything is found.

Nothing is written unless requests are held; then a line on stderr says for which webhook and why, and at the end what they came to. --progress plain,
json or github tells all, as of a run with one step.

Without a command it serves until it is stopped, for tools that are started elsewhere: --listen says at which loopback address, and --kubeconfig-out where their kubeconfig is
written, which is removed at the end.

Exit codes: the command's, or 128 and the number of the signal that ended it; 126 and 127 it cannot be run or found; 2 bad usage;
6 refused by --preflight fail. Without a command
129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM.`,
		Example: `  kplan hold -- helm upgrade --install operator ./chart
  kplan hold -- helmfile sync
  kplan hold --context staging --hold-timeout 10m -- kubectl apply -f manifests/
  kplan hold --preflight fail -- helm upgrade --install operator ./chart
  kplan hold --record run.jsonl --report junit=hold.xml -- terraform apply -auto-approve
  kplan hold --listen 127.0.0.1:8001 --kubeconfig-out /tmp/held.kubeconfig`,
		Args: o.args,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.hold(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what comes after the command is the command's
	flags.DurationVar(&o.proxy.HoldTimeout, "hold-timeout", plan.DefaultHoldTimeout, "how long one request is held at most")
	flags.DurationVar(&o.proxy.MisconfiguredTimeout, "misconfigured-timeout", plan.DefaultMisconfiguredTimeout, "how long a request is held for a webhook that is misconfigured rather than late")
	flags.BoolVar(&o.proxy.OnlyContext, "only-context", false, "leave out the kubeconfig's other contexts: the command reaches the current one only, or that of --context")
	flags.StringVar(&o.proxy.Listen, "listen", "", "listen at this loopback `address`, such as 127.0.0.1:8001 (default: any port)")
	flags.StringVar(&o.kubeconfigOut, "kubeconfig-out", "", "write the kubeconfig for the proxy to this file too, for tools that are started elsewhere; it is removed at the end")
	flags.StringVar(&o.tokenOut, "token-out", "", "write the proxy's bearer token to this file, which is removed at the end")
	addPreflight(cmd, &o.preflight, "looks first, and does not run the command if anything is found: exit code 6")
	addProgress(cmd, &o.progress)
	flags.StringVar(&o.record, "record", "", "write what happens to this file as events, one line of JSON each")
	o.wanted = addReports(cmd)
	return cmd
}

// args checks that there is something to do.
func (o *holdOptions) args(cmd *cobra.Command, args []string) error {
	if len(args) > 0 || o.kubeconfigOut != "" {
		return nil
	}
	if o.proxy.Listen != "" {
		return errors.New("name the file for the kubeconfig of whatever is to use the proxy: --kubeconfig-out FILE")
	}
	return fmt.Errorf("name the command: %s -- COMMAND, or serve tools that are started elsewhere by --kubeconfig-out FILE", cmd.CommandPath())
}

func (o *holdOptions) check() error {
	switch {
	case o.proxy.HoldTimeout <= 0:
		return usagef("--hold-timeout must be more than 0")
	case o.proxy.MisconfiguredTimeout <= 0:
		return usagef("--misconfigured-timeout must be more than 0")
	case o.progress == string(ui.TTY):
		return &usageError{err: errors.New("--progress tty would draw over what the command writes"), hint: "leave it out, or see what happened afterwards: --record FILE, then kplan replay FILE"}
	}
	if err := checkPreflight(o.preflight); err != nil {
		return err
	}
	if _, err := ui.ParseMode(o.progress); err != nil {
		return &usageError{err: err}
	}
	for flag, file := range map[string]string{"--kubeconfig-out": o.kubeconfigOut, "--token-out": o.tokenOut} {
		// It may be somebody's own kubeconfig.
		if info, err := os.Stat(file); file != "" && err == nil && (!info.Mode().IsRegular() || info.Size() > 0) {
			return &usageError{err: fmt.Errorf("%s %s exists", flag, file), hint: "name a file that does not, for it is removed at the end"}
		}
	}
	if err := noBypass(); err != nil {
		return err
	}
	var err error
	if o.reports, err = parseReports(*o.wanted); err != nil {
		return err
	}
	return o.spareOuts()
}

// spareOuts refuses two outputs to one file.
func (o *holdOptions) spareOuts() error {
	kubeconfig := plan.Read{Path: o.kubeconfigOut, What: "the file of --kubeconfig-out"}
	if err := refuseOver("--token-out "+o.tokenOut, o.tokenOut, []plan.Read{kubeconfig}); err != nil {
		return err
	}
	return o.refuseOutputsOver([]plan.Read{kubeconfig, {Path: o.tokenOut, What: "the file of --token-out"}})
}

// hold runs the command, or serves, as the one step of a run.
func (o *holdOptions) hold(ctx context.Context, command []string) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	footprint.Trim()
	name := "serve"
	if len(command) > 0 {
		if err := child.Find(command[0]); err != nil {
			return err
		}
		name = filepath.Base(command[0])
	}
	o.proxy.Flags, o.proxy.UserAgent = o.flags, userAgent()
	proxy, err := holdproxy.New(o.proxy)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	folder, err := o.write(proxy)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	footprint.Trim() // of what came until here
	if len(command) > 0 {
		id := ledger.NewRunID()
		return o.runOne(ctx, id, name, proxy, func(r runner.Reporter) error {
			return o.runCommand(command, folder, o.traced(id, name), r)
		})
	}
	stop, signals := interrupt.Context(ctx)
	defer signals.Release()
	err = o.runOne(ctx, ledger.NewRunID(), name, proxy, func(r runner.Reporter) error { return o.serve(stop, proxy, r) })
	if err == nil {
		err = &shownError{context.Cause(stop)} // it is what was asked for, and the exit code
	}
	return err
}

// runOne runs the plan of one step, and shows it.
func (o *holdOptions) runOne(ctx context.Context, id, name string, proxy *holdproxy.Proxy, act func(runner.Reporter) error) error {
	r := runner.Runner{ID: id, About: proxy.About(), Resolve: func(plan.Step) (runner.Action, error) { return proxy.Action(act), nil }}
	never := plan.Duration(100 * 365 * 24 * time.Hour)
	p := &plan.Plan{
		APIVersion: plan.APIVersion, Kind: plan.PlanKind, Metadata: plan.Metadata{Name: "hold"},
		Steps: []plan.Step{{Name: name, Timeout: &never, Retry: &plan.Retry{InstallRetries: 1}}},
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	counts := func(f finding.Finding) bool { return f.Severity != finding.Note }
	refused := looks(ctx, o.preflight, &r, counts, func(ctx context.Context, found func(finding.Finding)) {
		defer footprint.Trim() // of what only the look needed
		proxy.Preflight(ctx, o.preflight == preflightFail, found)
	})
	if refused != nil {
		stop(refused)
	}
	mode, open := o.shown()
	_, err := o.watch(ctx, &r, p, mode.Reports(), open)
	var all []error
	for _, e := range split(err) {
		if exit := (*child.ExitError)(nil); errors.As(e, &exit) {
			e = &shownError{e} // by the command itself
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

// unheard is a renderer whose errors change nothing: that nobody reads what is said of
// the holds is no fault of the command, whose exit code it is.
type unheard struct{ ui.Renderer }

func (u unheard) Close() error {
	_ = u.Renderer.Close() // there is nowhere left to say it
	return nil
}

// shown gives how the run is shown: by itself it says what is held, and no more.
func (o *holdOptions) shown() (ui.Mode, func() ui.Renderer) {
	mode := ui.Mode(o.progress)
	if mode == ui.Auto {
		return ui.Quiet, func() ui.Renderer { return unheard{ui.NewTerse(o.stderr, o.options(o.stderr))} }
	}
	return mode, func() ui.Renderer { return unheard{o.renderer(mode)} }
}

// What is in the command's folder.
const (
	kubeconfigName = "kubeconfig"
	cachesName     = "cache"
)

// write writes the kubeconfig for the proxy.
func (o *holdOptions) write(proxy *holdproxy.Proxy) (*child.Folder, error) {
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		return nil, fmt.Errorf("making a kubeconfig: %w", err)
	}
	outs := slices.DeleteFunc([]string{o.kubeconfigOut, o.tokenOut}, func(file string) bool { return file == "" })
	folder, err := child.NewFolder(outs...)
	if err != nil {
		return nil, err
	}
	err = os.WriteFile(filepath.Join(folder.Path, kubeconfigName), kubeconfig, 0o600)
	if err == nil && o.kubeconfigOut != "" {
		err = outfile.Write(o.kubeconfigOut, kubeconfig)
	}
	if err == nil && o.tokenOut != "" {
		err = outfile.Write(o.tokenOut, []byte(proxy.Token()))
	}
	if err != nil {
		return nil, errors.Join(&usageError{err: err}, folder.Close())
	}
	_ = linkCaches(filepath.Join(folder.Path, cachesName), proxy.Entrances()) // without, clients discover anew
	return folder, nil
}

// serve waits until it is told to stop.
func (o *holdOptions) serve(stop context.Context, proxy *holdproxy.Proxy, r runner.Reporter) error {
	tell(r, fmt.Sprintf("serves %s at %s until stopped: KUBECONFIG=%s", proxy.About(), proxy.Address(), o.kubeconfigOut))
	<-stop.Done()
	return nil
}
