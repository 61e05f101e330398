package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/load"
)

func newFleetValidate(a *app) *cobra.Command {
	var (
		in     *load.Options
		output data.Format
	)
	cmd := &cobra.Command{
		Use:   "validate [FLEET]",
		Short: "Check a fleet file and its plan, without a cluster",
		Long: `Read a fleet file and report every fault at once: syntax, fields, types, names, label selectors, expressions, and variables that the plan does
not take. Without FLEET it is fleet.yaml of the current folder. No cluster is asked.

Of clusters that the file lists it is checked too that each is in exactly one wave, and that the plan has no faults with their values. Of
all others 'kplan fleet plan' tells.

Each fault is written to stderr as file:line:col: message, with the line and a hint; with -o all of them go to stdout, as for kplan validate.

Exit codes: 0 the fleet is good, 2 it is not.`,
		Example: `  kplan fleet validate fleet.yaml
  kplan fleet validate fleet.yaml --var-file production.yaml
  kplan fleet validate fleet.yaml -o json`,
		Args:              oneFleet,
		ValidArgsFunction: fleetFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.chooseFleet(args, false)
			if err != nil {
				return err
			}
			return (&fleetValidation{app: a, path: path, in: *in, output: output}).run()
		},
	}
	in = addFleetInputs(cmd)
	addFormat(cmd, &output, "write the verdict to stdout, as json, yaml, github or sarif", findings.Formats...)
	return cmd
}

// fleetValidation tells what is wrong with a fleet file.
type fleetValidation struct {
	*app
	path   string
	in     load.Options
	output data.Format

	plan *plan.Plan // with the values of the cluster that was looked at last
}

func (v *fleetValidation) run() error {
	f, err := v.loadFleet(v.path, v.in)
	listed := 0
	if err == nil {
		listed, err = v.clusters(f)
	}
	faults, ok := errors.AsType[document.Diagnostics](err)
	if err != nil && !ok {
		return err
	}
	if v.output != "" {
		return cmp.Or(v.write(f, finding.Of(faults)), shown(err))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(v.stdout, "%s: valid, %s%s\n", words.Clean(v.path), words.Count(len(f.Waves), "wave"), listedWords(listed))
	return err
}

func listedWords(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + words.Count(n, "listed cluster")
}

// write writes to stdout what was found. The fleet is nil when it cannot be read.
func (v *fleetValidation) write(f *fleetload.Fleet, found []finding.Finding) error {
	r := findings.Report{File: v.path, Valid: len(found) == 0, Findings: found, Rules: finding.Codes(), Root: os.Getenv("GITHUB_WORKSPACE"), Version: readBuild().Version}
	if f != nil {
		r.Fleet, r.Waves = f.Metadata.Name, len(f.Waves)
	}
	if v.plan != nil {
		r.Plan, r.Steps = v.secrets().Text(v.plan.Metadata.Name), len(v.plan.Steps)
	}
	return r.Write(v.stdout, v.output)
}

// clusters looks at what the fleet says of the clusters that it lists, and at the plan with
// their values. It counts those that are taken.
func (v *fleetValidation) clusters(f *fleetload.Fleet) (taken int, err error) {
	var all document.Diagnostics
	add := func(err error) error {
		faults, ok := errors.AsType[document.Diagnostics](err)
		all = append(all, faults...)
		if ok {
			return nil
		}
		return err
	}
	looked := map[string]bool{}
	for _, l := range f.Listed() {
		is, vars, err := placed(f, l)
		if err := add(err); err != nil {
			return 0, err
		}
		if err != nil || !is {
			continue
		}
		taken++
		key, err := json.Marshal(vars)
		if err != nil {
			return 0, err
		}
		if looked[string(key)] {
			continue
		}
		looked[string(key)] = true
		if err := add(v.planWith(f, l.Cluster, vars)); err != nil {
			return 0, err
		}
	}
	if taken == 0 && len(all) == 0 {
		if err := add(v.planAlone(f)); err != nil {
			return 0, err
		}
	}
	if len(all) > 0 {
		return taken, unique(all)
	}
	return taken, nil
}

// placed reports whether a listed cluster is one of the fleet, and which values it gives. It
// is a fault when it is in no wave, or in two.
func placed(f *fleetload.Fleet, l fleetload.Found) (taken bool, vars map[string]any, err error) {
	if taken, err = f.Takes(l.Entry, l.Cluster); err != nil || !taken {
		return false, nil, err
	}
	if _, err = f.Wave(l.Cluster); err != nil {
		return false, nil, err
	}
	vars, err = f.Vars(l.Cluster)
	return true, vars, err
}

// planAlone looks at the plan where no cluster is known, if its values are the same for all.
func (v *fleetValidation) planAlone(f *fleetload.Fleet) error {
	if !f.Literal() {
		return nil
	}
	vars, err := f.Vars(fleet.Cluster{})
	if err != nil {
		return err
	}
	return v.planWith(f, fleet.Cluster{}, vars)
}

// planWith looks at the plan with the values for a cluster.
func (v *fleetValidation) planWith(f *fleetload.Fleet, c fleet.Cluster, vars map[string]any) error {
	in := v.in
	in.Fleet, in.Unknown, in.Decrypter = vars, true, v.keys
	p, err := load.File(f.PlanName, in)
	if err != nil {
		return f.Blame(err, c)
	}
	v.keep(p)
	v.plan = p
	return load.CheckFiles(p)
}

// unique leaves out faults that are told already: of the plan, which is read with the values
// of many clusters.
func unique(all document.Diagnostics) document.Diagnostics {
	seen := map[document.Diagnostic]bool{}
	var once document.Diagnostics
	for _, d := range all {
		if !seen[d] {
			seen[d] = true
			once = append(once, d)
		}
	}
	return once
}
