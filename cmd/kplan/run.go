package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/deletion"
)

// runOptions are the flags of run.
type runOptions struct {
	*app
	inputs   *load.Options
	picked   *plan.Selection
	parallel int
	timeout  time.Duration
	lockWait time.Duration
	progress string
	record   string
	output   data.Format
	planFile string
	wanted   *[]string       // values of --report
	force    *helmSteps      // of --force-upgrade
	upgrade  map[string]bool // the steps that it means
	taking   *helmSteps      // of --take-over
	takeOver map[string]bool // the steps that it means
	reports  []report.File   // what they say
	stay     bool
	resume   bool
	deletion deletion.Options // of delete steps
	review   bool
	planOut  string
	// preflight is the value of --preflight; "" is off.
	preflight string
	reviewed  *reviewed // what FILE of --plan-out says; nil for a plan
	wantedIn  *[]string // values of --record-in; nil for what is no plan's run
	recordIn  []string  // what they say
	recorded  bookkeeping

	interrupt func() // does what ^C does
}

func newRun(a *app) *cobra.Command {
	o := &runOptions{app: a}
	cmd := &cobra.Command{
		Use:   "run [PLAN]",
		Short: "Run a plan",
		Long: `Run the steps of a plan, independent ones side by side, until all are done or one failed that the others need.
Without PLAN that is plan.yaml of the current folder.

Progress goes to stderr; with -o a summary of the run goes to stdout. Reports are written when the run is over, also when it failed or was stopped.
--progress auto shows it as fits: github in a workflow of GitHub Actions, plain in other CI systems and without a terminal, else tty: a display in which keys retry steps that failed and skip waits (? tells all).
The first ^C or SIGTERM starts nothing new and lets requests in flight end; the plan's finally steps run then too. The second aborts at once.

--tags, --skip-tags, --only, --from and --until pick steps; together they pick those that meet all of them. Others are skipped, and those that
need them may run. The name of a for_each or an include means all of its steps. Finally steps run whatever is picked, unless --skip-tags leaves
them out, or --only does not name them.

A helm step leaves a release alone whose chart and values did not change. --force-upgrade renders and sends the charts of all helm steps anew,
--force-upgrade=STEP that of one: for charts that look at the cluster when they are rendered.

--review shows first what the run would change (see 'kplan diff') and asks whether it may begin. --plan-out FILE keeps that, and 'kplan run FILE'
does exactly what was reviewed: it refuses when the plan, its files, variables or the clusters have moved since.

While the first steps begin it is looked for what would keep steps from their work: rights that are missing, webhooks that would fail what is
written and that nobody is behind, full quotas. It is told as warnings; with --preflight fail it is looked for before anything is written, and a run
that cannot succeed is refused.

While a plan runs it has a lock in each cluster that it writes to (a Lease in kplan-system, or in state.namespace). Another run of the plan fails
at once, or waits with --lock-wait. The lock of a run that died is taken over, and so are the releases that it left pending. Those that somebody
without a lock left so, such as helm, are taken over with --take-over, or --take-over=STEP that of one.

Exit codes: 0 done, 1 a step failed, 2 bad plan or usage, 4 timed out waiting for a webhook or a condition, 5 another run has the plan's lock,
6 refused by --preflight fail, 129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM.`,
		Example: `  kplan run plan.yaml
  kplan run plan.yaml --context staging --var-file staging.yaml --set eso_version=0.11.0
  SOPS_AGE_KEY_FILE=keys.txt kplan run plan.yaml --var-file production.enc.yaml
  kubectl kustomize ./app | kplan run plan.yaml
  kplan run plan.yaml --tags operators --skip-tags slow
  kplan run plan.yaml --from eso-webhook
  kplan run plan.yaml --force-upgrade=eso
  kplan run plan.yaml --lock-wait 5m
  kplan run plan.yaml --preflight fail
  kplan run plan.yaml --resume
  kplan run plan.yaml --review
  kplan run plan.yaml --plan-out reviewed.json && kplan run reviewed.json
  kplan run plan.yaml --stay
  kplan run plan.yaml --progress plain
  kplan run plan.yaml --progress json --record events.jsonl
  kplan run plan.yaml --report html=run.html --report junit=run.xml
  kplan run plan.yaml --report otlp=http://localhost:4318
  kplan run plan.yaml --progress quiet -o json | jq .state`,
		Args:              onePlanBeside("force-upgrade", "take-over"),
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addInputs(cmd)
	o.picked = addSelection(cmd, o.inputs)
	o.force, o.taking = addForce(cmd, o.inputs), addTakeOver(cmd, o.inputs)
	o.addRunning(cmd)
	o.addFetching(cmd)
	o.addOwn(cmd)
	return cmd
}

// addOwn registers the flags that run alone has.
func (o *runOptions) addOwn(cmd *cobra.Command) {
	addPreflight(cmd, &o.preflight, "looks before anything is written, and refuses a run that cannot succeed with exit code 6")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "go on after the newest recorded run: skip what it did, if the step is the same and what it made is still there")
	cmd.Flags().BoolVar(&o.review, "review", false, "on a terminal, show what would change, and ask before the run begins")
	cmd.Flags().StringVar(&o.planOut, "plan-out", "", "run nothing, but show what would change and write it to this file, for 'kplan run FILE'")
	addFormat(cmd, &o.output, "write a summary of the run to stdout, as json or yaml", data.JSON, data.YAML)
}

// addRunning registers the flags of all commands that run a plan.
func (o *runOptions) addRunning(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&o.parallel, "parallel", runner.DefaultParallel, "how many steps run at once")
	flags.DurationVar(&o.timeout, "timeout", 0, "stop the whole run after this time, as by SIGTERM (default: never)")
	flags.DurationVar(&o.lockWait, "lock-wait", 0, "wait this long for another run of the plan to end (default: fail at once)")
	addProgress(cmd, &o.progress)
	o.addLogs(cmd)
	flags.BoolVar(&o.stay, "stay", false, "on a terminal, keep the display open after the end until q, and let a run whose steps failed wait for orders (r retries a step)")
	flags.StringVar(&o.record, "record", "", "write the run's events to this file, one line of JSON each")
	o.wantedIn = addRecordIn(cmd)
	o.wanted = addReports(cmd)
}

// check looks at the flags, and returns how the run is shown.
func (o *runOptions) check() (ui.Mode, error) {
	switch {
	case o.parallel < 1:
		return "", usagef("--parallel must be at least 1, not %d", o.parallel)
	case o.timeout < 0:
		return "", usagef("--timeout must not be negative")
	case o.lockWait < 0:
		return "", usagef("--lock-wait must not be negative")
	}
	if o.wantedIn != nil {
		o.recordIn = *o.wantedIn
	}
	if err := checkRecordIn(o.recordIn); err != nil {
		return "", err
	}
	if err := errors.Join(o.checkReview(), checkPreflight(o.preflight)); err != nil {
		return "", err
	}
	mode, err := o.mode(o.progress)
	if err == nil && o.stay && mode != ui.TTY {
		err = &usageError{err: errors.New("--stay is for the display on a terminal"), hint: "see --progress"}
	}
	return mode, err
}

// refuseOverwriting refuses to write over what the run of a plan reads.
func (o *runOptions) refuseOverwriting(p *plan.Plan) error {
	reads := p.Reads()
	for _, file := range o.inputs.VarFiles {
		reads = append(reads, plan.Read{Path: file, What: "the var file " + file})
	}
	return o.refuseOutputsOver(reads)
}

// refuseOutputsOver refuses to write over what is read, kubeconfigs included, and two outputs
// to one file.
func (o *runOptions) refuseOutputsOver(reads []plan.Read) error {
	for _, file := range o.flags.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence() {
		reads = append(reads, plan.Read{Path: file, What: "the kubeconfig " + file})
	}
	if err := refuseOver("--record "+o.record, o.record, reads); err != nil {
		return err
	}
	if err := refuseOver("--plan-out "+o.planOut, o.planOut, reads); err != nil {
		return err
	}
	return refuseReportsOver(o.reports, append(reads, plan.Read{Path: o.record, What: "the record of the run"}))
}

func (o *runOptions) run(ctx context.Context, args []string) error {
	mode, err := o.check()
	if err != nil {
		return err
	}
	// A reader of events wants nothing else, and one of quiet nothing at all.
	path, err := o.choosePlan(args, mode == ui.JSON || mode == ui.Quiet)
	if err != nil {
		return err
	}
	if path, err = o.reload(path); err != nil {
		return err
	}
	p, err := o.open(path)
	if err != nil {
		return err
	}
	if err := p.Select(*o.picked); err != nil {
		return &usageError{err: err}
	}
	if o.upgrade, err = o.force.in(p); err != nil {
		return err
	}
	if o.takeOver, err = o.taking.in(p); err != nil {
		return err
	}
	return o.runPlan(ctx, p)
}

// open reads the plan that is to be run, and refuses to write over what it reads.
func (o *runOptions) open(path string) (_ *plan.Plan, err error) {
	o.planFile = path
	if o.reports, err = parseReports(*o.wanted); err != nil {
		return nil, err
	}
	p, err := o.load(path, *o.inputs)
	if err != nil {
		return nil, &usageError{err: err}
	}
	return p, o.refuseOverwriting(p)
}

// runPlan runs a plan that was read.
func (o *runOptions) runPlan(ctx context.Context, p *plan.Plan) error {
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, &runner.TimeoutError{After: o.timeout, For: "the run to end"})
		defer cancel()
	}
	ctx, signals := interrupt.Context(ctx)
	o.interrupt = signals.Interrupt
	defer signals.Release()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if o.review || o.planOut != "" {
		if err := o.look(ctx, p); err != nil || o.planOut != "" {
			return err
		}
	}
	from, err := o.sources(p)
	if err != nil {
		return err
	}
	run := ledger.NewRunID()
	kinds, err := steps.New(ctx, steps.Config{
		Flags: o.flags, Plan: p, Run: run, ForceUpgrade: o.upgrade, TakeOver: o.takeOver, Deletion: o.deletion, Sources: from, UserAgent: userAgent(),
		Lock: &steps.Lock{Wait: o.lockWait, Waiting: o.tell, Lost: stop, Later: o.preflight == preflightFail},
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	r := runner.Runner{
		ID: run, By: runBy(run), Program: readBuild().Version, About: kinds.Cluster(), Resolve: kinds.Resolve, ReadInputs: kinds.ReadInputs, Guards: kinds.Guards, Prepare: kinds.Prepare,
		Parallel: o.parallel, Abort: signals.Abort, Redact: o.secrets().Text,
	}
	if err := o.begin(ctx, p, kinds, &r, stop); err != nil {
		kinds.Close()
		return err
	}
	x, err := o.observe(ctx, &r, p)
	if !errors.Is(err, runner.ErrAborted) { // an action still uses what Close takes away
		kinds.Close()
	}
	if text := o.fetching.unlocked(); text != "" {
		o.tell(text)
	}
	if x != nil && o.output != "" {
		if e := o.print(o.output, x); e != nil {
			err = errors.Join(err, e)
		}
	}
	return err
}

// begin does what comes before the first step: it looks whether the run may begin, and
// reads what earlier runs did. A run that is refused is told as one that was stopped, and is
// not recorded.
func (o *runOptions) begin(ctx context.Context, p *plan.Plan, kinds *steps.Steps, r *runner.Runner, stop func(error)) error {
	err := o.preflighted(ctx, kinds, r)
	if refused, is := errors.AsType[*refusedError](err); is {
		o.recorded.store = ledger.Store{}
		stop(refused)
		return nil
	}
	switch cause := context.Cause(ctx); {
	case err != nil && cause != nil:
		return cause
	case err != nil:
		return err
	}
	if err := o.unmoved(ctx, p, kinds); err != nil { // once the plan is locked
		return err
	}
	o.past(ctx, p, kinds)
	return nil
}

// tell says something to people before the run starts. A reader of events wants
// nothing else, and one of quiet nothing at all.
func (o *runOptions) tell(text string) {
	if mode, err := o.mode(o.progress); err == nil && mode != ui.JSON && mode != ui.Quiet {
		fmt.Fprintln(o.stderr, o.oneLine(text))
	}
}

// observe runs p with the renderers that the flags ask for, and writes the reports.
func (o *runOptions) observe(ctx context.Context, r *runner.Runner, p *plan.Plan) (*runner.Execution, error) {
	mode, err := o.mode(o.progress)
	if err != nil {
		return nil, err
	}
	return o.watch(ctx, r, p, mode.Reports(), func() ui.Renderer {
		if mode == ui.TTY {
			return o.display(ctx, r)
		}
		return o.renderer(mode)
	})
}

// watch runs p with one renderer on stderr, which may show by itself why a run
// failed, and what the flags ask for besides.
func (o *runOptions) watch(ctx context.Context, r *runner.Runner, p *plan.Plan, reports bool, open func() ui.Renderer) (*runner.Execution, error) {
	var renderers []ui.Renderer
	if o.record != "" {
		f, err := outfile.Open(o.record)
		if err != nil {
			return nil, &usageError{err: fmt.Errorf("--record: %w", err), hint: "name another file"}
		}
		renderers = append(renderers, recording{ui.NewJSON(f), f})
	}
	reporter := &report.Files{Files: o.reports, Meta: report.Meta{Version: readBuild().Version, PlanFile: o.planFile, Getenv: os.Getenv}}
	if len(o.reports) > 0 {
		r.Observers = append(r.Observers, reporter)
	}
	shown := open()
	if d, is := shown.(*tui.Display); is {
		defer d.Release() // also when the run panics
	}
	renderers = append(renderers, shown) // the last to be closed: it may stay open
	for _, renderer := range renderers {
		r.Observers = append(r.Observers, renderer)
	}
	o.startRecording(ctx, r)
	x, err := r.Run(ctx, p)
	missing := o.recorded.running.Close()
	late := reporter.Close()
	if x != nil && err != nil && reports {
		err = &shownError{err}
	}
	for _, renderer := range renderers {
		if e := renderer.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("writing progress: %w", e))
		}
	}
	o.unrecorded(missing)
	o.sendReports(ctx, reporter, r.Abort)
	if late != nil {
		err = errors.Join(err, late)
	}
	return x, err
}

// recording is a renderer that writes to a file of its own.
type recording struct {
	ui.Renderer
	file io.Closer
}

func (r recording) Close() error { return errors.Join(r.Renderer.Close(), r.file.Close()) }
