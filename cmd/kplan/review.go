package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/diff"
)

// reviewedKind tells a file of --plan-out from a plan.
const reviewedKind = "ReviewedPlan"

// reviewed is a plan that was looked at with what it would change. It has digests of
// what is secret, and of all that a run depends on. They are made with the key of the
// plan's records, which is not in it: else who has the file could try guesses.
type reviewed struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Time       time.Time `json:"time"`
	// Plan is the plan's file, and Name its name.
	Plan string `json:"plan"`
	Name string `json:"name"`
	// Set and VarFiles are the flags that gave variables their values. Those of
	// sensitive variables are left out: Again names them.
	Set      []string       `json:"set,omitempty"`
	VarFiles []string       `json:"var_files,omitempty"`
	Again    []string       `json:"give_again,omitempty"`
	Picked   plan.Selection `json:"selection"`
	Force    []string       `json:"force_upgrade,omitempty"`
	// Engine is the version of Helm that was asked for on the command line.
	Engine plan.HelmEngine `json:"helm_engine,omitempty"`
	// Cluster are the clusters that were compared.
	Cluster string `json:"cluster"`
	// Key tells with which key the digests were made.
	Key string `json:"key"`
	// Files are digests of the files that a run reads, and Steps one of the resolved
	// steps, with the values of all variables.
	Files map[string]string `json:"files"`
	Steps string            `json:"resolved"`
	// Review is what the steps would send, and what that was compared with.
	Review diff.Review `json:"review"`
}

// inputsOf are the flags that a run was asked for with.
type inputsOf struct {
	load.Options
	picked plan.Selection
	force  []string
}

// keyID is digested to tell keys apart.
const keyID = "the key of a reviewed plan"

// keyOf returns the key that makes the digests of a plan's records. A plan without any
// gets one in the folder beside it.
func (a *app) keyOf(ctx context.Context, p *plan.Plan, kinds *steps.Steps) ledger.Key {
	var s ledger.Store
	if place, err := kinds.Home(ctx); err == nil {
		s.Place = &place
	}
	if p.Dir != "" {
		s.Folder = ledger.FolderOf(p.Dir)
	}
	past, err := s.Past(ctx, p.Metadata.Name, kinds.Cluster())
	a.warn("the key of the plan's records", err)
	return past.Key
}

// reviewOf keeps what was shown of a plan.
func reviewOf(p *plan.Plan, path string, c *comparison, in inputsOf) *reviewed {
	r := &reviewed{
		APIVersion: plan.APIVersion, Kind: reviewedKind, Time: time.Now().UTC().Truncate(time.Second),
		Plan: absolute(path), Name: p.Metadata.Name, Picked: in.picked, Force: in.force, Engine: in.HelmEngine, Cluster: c.cluster,
		Key: c.key.Digest(keyID), Files: filesOf(p, in.VarFiles, c.key), Steps: resolvedOf(p, c.key), Review: c.diff.Review(c.key),
	}
	for _, file := range in.VarFiles {
		r.VarFiles = append(r.VarFiles, absolute(file))
	}
	r.Set, r.Again = openPairs(p, in.Set)
	return r
}

// openPairs are the pairs of --set that may be written down, and the names of the
// sensitive variables that the others are of.
func openPairs(p *plan.Plan, set []string) (pairs, again []string) {
	for _, pair := range set {
		name, _, _ := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if slices.ContainsFunc(p.Variables, func(v plan.Variable) bool { return v.Name == name && v.Sensitive }) {
			again = append(again, name)
		} else {
			pairs = append(pairs, pair)
		}
	}
	return pairs, again
}

// pairName is the variable that a pair of --set is of, read as package load does.
func pairName(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	return strings.TrimSpace(name)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// filesOf are digests of what a run of the plan reads. A folder has none: its chart is
// among what is rendered.
func filesOf(p *plan.Plan, varFiles []string, key ledger.Key) map[string]string {
	out := map[string]string{}
	add := func(path string) {
		if b, err := os.ReadFile(path); err == nil {
			out[absolute(path)] = key.Digest(b)
		}
	}
	for _, r := range p.Reads() {
		add(r.Path)
	}
	for _, file := range varFiles {
		add(file)
	}
	return out
}

// resolvedOf is a digest of the steps with the values of their variables.
func resolvedOf(p *plan.Plan, key ledger.Key) string {
	all := slices.Clone(p.Steps)
	for i := range all {
		all[i].Pending = nil
	}
	return key.Digest(all)
}

func (r *reviewed) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = outfile.Write(path, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("--plan-out: %w", err)
	}
	return nil
}

// readReviewed reads a file of --plan-out; nil when it is something else, as a plan.
func readReviewed(path string) (*reviewed, error) {
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return nil, nil //nolint:nilerr // whoever reads the plan says so
	}
	var r reviewed
	if json.Unmarshal(b, &r) != nil || r.Kind != reviewedKind {
		return nil, nil
	}
	if r.APIVersion != plan.APIVersion {
		return nil, usagef("%s is of version %s, not %s", path, r.APIVersion, plan.APIVersion)
	}
	return &r, nil
}

// reload takes the flags of a file of --plan-out, and returns the path of its plan;
// that of a plan is what it is.
func (o *runOptions) reload(path string) (string, error) {
	if isBundle(path) {
		if o.planOut != "" {
			return "", usagef("--plan-out is for plans on disk: what was reviewed names their files")
		}
		return path, nil
	}
	r, err := readReviewed(path)
	if r == nil || err != nil {
		return path, err
	}
	if o.reviewed = r; o.planOut != "" {
		return "", usagef("%s was written by --plan-out already", path)
	}
	return r.Plan, o.take(r)
}

// take takes the flags that a plan was reviewed with.
func (o *runOptions) take(r *reviewed) error {
	given := o.inputs.Set
	for _, pair := range given {
		if !slices.Contains(r.Again, pairName(pair)) {
			return &usageError{err: fmt.Errorf("--set %s: what was reviewed has its values", pairName(pair)), hint: "review the plan anew with other values"}
		}
	}
	for _, name := range r.Again {
		if !slices.ContainsFunc(given, func(pair string) bool { return pairName(pair) == name }) {
			return &usageError{err: fmt.Errorf("the sensitive variable %s is not kept in what was reviewed", name), hint: "give it again: --set " + name + "=…"}
		}
	}
	if len(o.inputs.VarFiles) > 0 || !empty(*o.picked) || len(o.force.names) > 0 || o.inputs.HelmEngine != "" {
		return &usageError{err: errors.New("what was reviewed says which steps run, and with what values"), hint: "review the plan anew to change that"}
	}
	o.inputs.Set = append(slices.Clone(r.Set), given...)
	o.inputs.HelmEngine = r.Engine
	o.inputs.VarFiles, *o.picked, o.force.names = r.VarFiles, r.Picked, r.Force
	return nil
}

func empty(s plan.Selection) bool {
	return len(s.Tags)+len(s.SkipTags)+len(s.Only)+len(s.From)+len(s.Until) == 0
}

// errMoved refuses what is not as it was reviewed.
type errMoved struct{ what []string }

func (e *errMoved) Error() string {
	const most = 8
	text := strings.Join(e.what[:min(len(e.what), most)], "\n  ")
	if more := len(e.what) - most; more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return "not what was reviewed any more, nothing was run:\n  " + text
}

// Hint implements the interface that runner.HintOf looks for.
func (e *errMoved) Hint() string { return "look at it anew: kplan diff PLAN --plan-out FILE" }

// unmoved refuses a plan that is not the one that was reviewed, or clusters that are
// not as they were.
func (o *runOptions) unmoved(ctx context.Context, p *plan.Plan, kinds *steps.Steps) error {
	r := o.reviewed
	if r == nil {
		return nil
	}
	key := o.keyOf(ctx, p, kinds)
	if key.Digest(keyID) != r.Key {
		return runner.WithHint(errors.New("what was reviewed cannot be compared here: its digests were made with another key than that of the plan's records"),
			"the key is in the records in the cluster, and in .kplan/key beside the plan: take that along where no run is recorded yet, or look at the plan anew here")
	}
	var moved []string
	now := filesOf(p, o.inputs.VarFiles, key)
	for _, file := range slices.Sorted(keysOf(r.Files, now)) {
		if r.Files[file] != now[file] {
			moved = append(moved, words.Clean(file)+" has changed")
		}
	}
	if len(moved) == 0 && resolvedOf(p, key) != r.Steps {
		moved = append(moved, "the values of variables have changed")
	}
	if len(moved) > 0 {
		return &errMoved{moved}
	}
	c, err := o.compare(ctx, p, o.upgrade, o.parallel, false)
	if err != nil {
		return err
	}
	if c.cluster != r.Cluster {
		moved = append(moved, "the clusters are "+c.cluster+", not "+r.Cluster)
	}
	if moved = append(moved, r.Review.Moved(c.diff, key)...); len(moved) > 0 {
		return &errMoved{moved}
	}
	o.tell("note: it is what was reviewed at " + r.Time.Format("2006-01-02 15:04:05 MST"))
	return nil
}

func keysOf(maps ...map[string]string) func(func(string) bool) {
	seen := map[string]bool{}
	return func(yield func(string) bool) {
		for _, m := range maps {
			for k := range m {
				if !seen[k] && !yield(k) {
					return
				}
				seen[k] = true
			}
		}
	}
}

// look shows what the run would change, to keep it or to ask whether it may begin.
func (o *runOptions) look(ctx context.Context, p *plan.Plan) error {
	c, err := o.compare(ctx, p, o.upgrade, o.parallel, o.planOut != "")
	if err != nil {
		return err
	}
	if err := o.style(o.colour(o.stderr), 3, false).Write(o.stderr, c.diff); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	if !c.diff.Changes {
		fmt.Fprintln(o.stderr, "no changes")
	}
	if o.planOut != "" {
		r := reviewOf(p, o.planFile, c, inputsOf{*o.inputs, *o.picked, o.force.names})
		if err := r.write(o.planOut); err != nil {
			return err
		}
		fmt.Fprintf(o.stderr, "note: nothing was run; what was shown is in %s, run it by: %s run %s\n", words.Clean(o.planOut), o.name, words.Clean(o.planOut))
		return failing(c.diff)
	}
	return o.confirm(ctx, question{text: "Run the plan?", done: "run", instead: "look at it with " + o.name + " diff, then run it without --review"})
}

// checkReview looks at the flags that show a plan before it runs.
func (o *runOptions) checkReview() error {
	if o.review && o.planOut != "" {
		return usagef("--review and --plan-out exclude each other")
	}
	if o.review && (!tty.Is(o.stdin) || !tty.Is(o.stderr)) {
		return &usageError{err: errors.New("--review asks a person on a terminal"), hint: "use: " + o.name + " diff PLAN --plan-out FILE, then: " + o.name + " run FILE"}
	}
	return nil
}
