package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/lock"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// lockOptions are the flags of lock.
type lockOptions struct {
	*app
	inputs *load.Options
	update []string
	check  bool
	prune  bool
	output data.Format
}

func newLock(a *app) *cobra.Command {
	o := &lockOptions{app: a}
	cmd := &cobra.Command{
		Use:   "lock [PLAN]",
		Short: "Write down which charts and manifests a plan fetches, by version and digest",
		Long: `Fetch the charts and manifests that a plan refers to elsewhere, and write their versions and digests to the lock file beside it: plan.lock.yaml
for plan.yaml. Without PLAN it is plan.yaml of the current folder. Commit the file. No cluster is asked.

Commands that fetch for the plan, such as run, diff and validate --cluster, then take the versions of the lock file, and fail when the content
under a version is another one than it was. With their flag --locked they also fail when something is not in the lock file.

Versions that are locked and still allowed by the plan stay; what is missing is added. --update resolves everything anew, --update=STEP what that
step refers to. The lock file has an entry for each reference, so one file serves all values of the plan's variables: lock the plan once with each of
its var files. Entries that the plan does not need with these values stay, unless --prune removes them.

--check writes nothing. It fails when the lock file is not up to date, or when what is elsewhere is not what is locked.

Exit codes: 0 done, 1 something could not be fetched, or is not what is locked, 2 bad plan, lock file or usage, 3 the lock file is not up to date
(with --check).`,
		Example: `  kplan lock plan.yaml
  kplan lock plan.yaml --var-file staging.yaml && kplan lock plan.yaml --var-file production.yaml
  kplan lock plan.yaml --update=eso
  kplan lock plan.yaml --update --prune
  kplan lock plan.yaml --check                   # in a pipeline
  kplan lock plan.yaml -o json | jq '.entries[] | select(.change)'`,
		Args:              onePlanBeside("update"),
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addInputs(cmd)
	o.addMap(cmd)
	o.addPlainHTTP(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&o.update, "update", nil, "resolve anew what this `step` refers to; may be repeated, all steps without =step")
	flags.Lookup("update").NoOptDefVal = everyStep
	completeBy(cmd, "update", fromPlan(o.inputs, (*plan.Plan).StepNames))
	flags.BoolVar(&o.check, "check", false, "write nothing, and fail when the lock file is not up to date")
	flags.BoolVar(&o.prune, "prune", false, "remove entries that the plan does not need with these values of its variables")
	cmd.MarkFlagsMutuallyExclusive("check", "update")
	addFormat(cmd, &o.output, "write the entries and what changed to stdout, as json or yaml", data.JSON, data.YAML)
	return cmd
}

// locked is what lock found and did, for programs.
type locked struct {
	Plan string `json:"plan"`
	// File is the lock file, and Changed whether it was, or with --check would have to be,
	// written.
	File    string        `json:"file"`
	Changed bool          `json:"changed"`
	Entries []lockedEntry `json:"entries"`
	// Later are what is known only in the run, and cannot be locked.
	Later []string `json:"later,omitempty"`
}

// lockedEntry is an entry of the lock file, and what became of it.
type lockedEntry struct {
	Kind       source.Kind `json:"kind"`
	Name       string      `json:"name"`
	Repo       string      `json:"repo,omitempty"`
	Constraint string      `json:"constraint,omitempty"`
	Version    string      `json:"version,omitempty"`
	Digest     string      `json:"digest,omitempty"`
	Manifest   string      `json:"manifest,omitempty"`
	Change     lockChange  `json:"change,omitempty"`
	// Was is the version, or the digest when that alone is another one.
	Was string `json:"was,omitempty"`
	now string // what Was is now
}

// lockChange is what became of an entry.
type lockChange string

const (
	lockAdded   lockChange = "added"
	lockUpdated lockChange = "updated"
	lockRemoved lockChange = "removed"
	lockUnused  lockChange = "unused"
	lockMissing lockChange = "missing" // with --check
)

// outdatedError says that a lock file is not up to date.
type outdatedError struct{ file, hint string }

// Error implements error.
func (e *outdatedError) Error() string { return "the lock file " + e.file + " is not up to date" }

// Hint says what to do about it.
func (e *outdatedError) Hint() string { return e.hint }

// Is makes it one of changes, for the exit code.
func (e *outdatedError) Is(target error) bool { return target == errChanges }

func (o *lockOptions) run(ctx context.Context, args []string) error {
	path, err := o.choosePlan(args, o.output != "")
	if err != nil {
		return err
	}
	if isBundle(path) && !o.check {
		return usagef("%s is a bundle, whose lock file is not written: lock the plan, and make the bundle anew", path)
	}
	p, err := o.read(path, *o.inputs)
	if err != nil {
		return &usageError{err: err}
	}
	was, err := o.readLock(p)
	if errors.Is(err, fs.ErrNotExist) {
		was, err = &lock.File{Mask: o.secrets().Text}, nil
	}
	if err != nil {
		return &usageError{err: err}
	}
	fresh, err := o.stepsIn(p)
	if err != nil {
		return err
	}
	if o.check {
		return o.compare(ctx, p, was)
	}
	return o.write(ctx, p, was, fresh)
}

// stepsIn returns whether a step is to be resolved anew.
func (o *lockOptions) stepsIn(p *plan.Plan) (func(plan.Step) bool, error) {
	for _, name := range o.update {
		if name != everyStep && !slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.IsPart(name) }) {
			return nil, &usageError{err: fmt.Errorf("--update: the plan has no step %q", name), hint: "there are: " + words.List(p.StepNames(), 10)}
		}
	}
	return func(s plan.Step) bool {
		return slices.ContainsFunc(o.update, func(name string) bool { return name == everyStep || s.IsPart(name) })
	}, nil
}

// resolve fetches what steps refer to, and returns it.
func (o *lockOptions) resolve(ctx context.Context, p *plan.Plan, pins source.Pins, only func(plan.Step) bool) (*lock.File, []string, error) {
	options, err := o.sourceOptions(p)
	if err != nil {
		return nil, nil, err
	}
	options.Pins = pins
	from := source.New(options)
	defer from.Close()
	later, err := analyze.Fetch(ctx, p, from, only)
	found := &lock.File{Mask: o.secrets().Text}
	for _, f := range from.Fetched() {
		found.Put(lock.Of(f))
	}
	return found, later, err
}

// write brings the lock file up to date.
func (o *lockOptions) write(ctx context.Context, p *plan.Plan, was *lock.File, fresh func(plan.Step) bool) error {
	needed, anew, err := o.resolve(ctx, p, nil, fresh)
	if err != nil {
		return err
	}
	rest, later, err := o.resolve(ctx, p, lock.Keeping{File: was, Fresh: needed}, func(s plan.Step) bool { return !fresh(s) })
	if err != nil {
		return err
	}
	for _, e := range rest.Entries() {
		needed.Put(e)
	}
	result := locked{Plan: p.Metadata.Name, File: lock.Path(p.File), Later: slices.Concat(anew, later)}
	now := &lock.File{Mask: o.secrets().Text}
	for _, e := range needed.Entries() {
		now.Put(e)
		result.add(e, was)
	}
	for _, e := range was.Entries() {
		if _, used := needed.Find(e.Reference); used {
			continue
		}
		if o.prune {
			result.put(e, lockRemoved, "", "")
			continue
		}
		now.Put(e)
		result.put(e, lockUnused, "", "")
	}
	if result.Changed {
		if err := now.Write(result.File, p.File); err != nil {
			return fmt.Errorf("writing the lock file: %w", err)
		}
	}
	return o.show(result)
}

// compare looks whether the lock file is up to date.
func (o *lockOptions) compare(ctx context.Context, p *plan.Plan, was *lock.File) error {
	result := locked{Plan: p.Metadata.Name, File: lock.Path(p.File)}
	var mu sync.Mutex
	missing := &lock.File{Mask: o.secrets().Text}
	pins := &lock.Pins{File: was, Strict: true, Missing: func(ref source.Reference) {
		mu.Lock()
		defer mu.Unlock()
		missing.Put(lock.Entry{Reference: ref})
	}}
	found, later, err := o.resolve(ctx, p, pins, nil)
	result.Later = later
	for _, e := range found.Entries() {
		result.add(e, was)
	}
	var errs []error
	for _, e := range split(err) {
		if !errors.As(e, new(*lock.UnlockedError)) { // which is told of below
			errs = append(errs, e)
		}
	}
	for _, e := range missing.Entries() {
		result.put(e, lockMissing, "", "")
	}
	if len(errs) == 0 && result.Changed {
		errs = append(errs, &outdatedError{result.File, "bring it up to date by: " + o.name + " lock " + p.File})
	}
	return errors.Join(append([]error{o.show(result)}, errs...)...)
}

// add adds an entry that the plan needs, and says what changed of it.
func (l *locked) add(e lock.Entry, was *lock.File) {
	old, ok := was.Find(e.Reference)
	switch {
	case !ok:
		l.put(e, lockAdded, "", "")
	case old.Locked != e.Locked:
		l.put(e, lockUpdated, old.Locked, e.Locked)
	case old.Digest != e.Digest:
		l.put(e, lockUpdated, old.Digest, e.Digest)
	case old.Manifest != e.Manifest: // the same content, pushed again
		l.put(e, lockUpdated, old.Manifest, e.Manifest)
	default:
		l.put(e, "", "", "")
	}
}

func (l *locked) put(e lock.Entry, change lockChange, was, now string) {
	l.Changed = l.Changed || change != "" && change != lockUnused
	l.Entries = append(l.Entries, lockedEntry{
		Kind: e.Kind, Name: source.Public(e.Name), Repo: source.Public(e.Repo), Constraint: e.Version,
		Version: e.Locked, Digest: e.Digest, Manifest: e.Manifest, Change: change, Was: was, now: now,
	})
}

// show writes what was found.
func (o *lockOptions) show(l locked) error {
	if o.output != "" {
		return o.print(o.output, l)
	}
	var b strings.Builder
	used := 0
	for _, e := range l.Entries {
		ref := source.Reference{Kind: e.Kind, Repo: e.Repo, Name: e.Name, Version: e.Constraint}
		if e.Change != lockUnused && e.Change != lockRemoved {
			used++
		}
		switch e.Change {
		case "":
		case lockUpdated:
			fmt.Fprintf(&b, "updated  %s: %s, was %s\n", ref, e.now, e.Was)
		case lockUnused:
			fmt.Fprintf(&b, "unused   %s: not needed with these values of the variables; --prune removes it\n", ref)
		case lockAdded, lockRemoved, lockMissing:
			fmt.Fprintf(&b, "%-8s %s\n", e.Change, words.Join(": ", ref.String(), words.Join(" ", e.Version, e.Digest)))
		}
	}
	for _, text := range l.Later {
		fmt.Fprintf(o.stderr, "note: %s, and cannot be locked\n", o.oneLine(text))
	}
	state := "up to date"
	if l.Changed && !o.check {
		state = "written"
	} else if l.Changed {
		state = "not up to date"
	}
	fmt.Fprintf(&b, "%s: %s, %s\n", l.File, words.Count(used, "reference"), state)
	_, err := fmt.Fprint(o.stdout, words.Clean(o.secrets().Text(b.String())))
	return err
}
