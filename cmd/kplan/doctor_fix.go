package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	osuser "os/user"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/changes"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/doctor"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/runner"
)

// fixContext is how many lines around a change are shown.
const fixContext = 3

// mend makes the change that mends one finding, once it was shown and confirmed.
func (e *examination) mend(ctx context.Context) error {
	r, err := e.look(ctx)
	if err != nil {
		return err
	}
	for _, f := range r.Findings {
		if f.ID() != e.fix {
			continue
		}
		c, err := e.clusterOf(f)
		if err != nil {
			return err
		}
		change, err := c.Mend(ctx, f)
		if errors.Is(err, doctor.ErrNoRemedy) {
			return runner.WithHint(fmt.Errorf("%s: %w", e.fix, err), cmp.Or(f.Hint, "see what the finding says: "+e.name+" doctor --explain "+f.Rule))
		}
		if err != nil {
			return err
		}
		return e.make(ctx, c, change)
	}
	return &usageError{err: fmt.Errorf("nothing is found with the id %q", e.fix), hint: "an id is CHECK:OBJECT, as " + e.name + " doctor shows both"}
}

// clusterOf is the cluster of a finding.
func (e *examination) clusterOf(f finding.Finding) (*doctor.Cluster, error) {
	for _, at := range e.places {
		if at.Cluster == f.Cluster {
			return doctor.New(at.Config, at.Namespaces...)
		}
	}
	return nil, fmt.Errorf("the plan has no cluster %q", f.Cluster)
}

func (e *examination) make(ctx context.Context, c *doctor.Cluster, change doctor.Change) error {
	if err := e.show(change.Before, change.After); err != nil {
		return err
	}
	if !e.yes {
		q := question{text: "Make this change?", done: "changed", instead: "where nobody can be asked, --yes says yes"}
		if err := e.confirm(ctx, q); err != nil {
			return err
		}
	}
	by := ""
	if u, err := osuser.Current(); err == nil {
		by = u.Username
	}
	if err := c.Apply(ctx, change, plan.DefaultStateNamespace, by); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "changed; to take it back: %s doctor --undo %s\n", e.name, change.Finding)
	return err
}

// takeBack undoes the change of a finding.
func (e *examination) takeBack(ctx context.Context) error {
	for _, at := range e.places {
		c, err := doctor.New(at.Config, at.Namespaces...)
		if err != nil {
			return err
		}
		change, err := c.Recorded(ctx, e.undo, plan.DefaultStateNamespace)
		if errors.Is(err, doctor.ErrNoRecord) {
			continue
		}
		if err != nil {
			return err
		}
		if err := e.show(change.After, change.Before); err != nil {
			return err
		}
		if !e.yes {
			q := question{text: "Take this change back?", done: "taken back", instead: "where nobody can be asked, --yes says yes"}
			if err := e.confirm(ctx, q); err != nil {
				return err
			}
		}
		_, err = c.Undo(ctx, e.undo, plan.DefaultStateNamespace)
		switch {
		case errors.Is(err, doctor.ErrChanged):
			return runner.WithHint(err, "compare it with the record: kubectl get configmaps -n "+plan.DefaultStateNamespace+" -l kplan.dev/doctor")
		case err != nil:
			return err
		}
		_, err = fmt.Fprintln(e.stdout, "taken back")
		return err
	}
	return &usageError{err: fmt.Errorf("%s: %w", e.undo, doctor.ErrNoRecord), hint: "changes of --fix are recorded in the namespace " + plan.DefaultStateNamespace}
}

// show writes what changes of an object as a diff; nil is one that is not there.
func (e *examination) show(before, after *unstructured.Unstructured) error {
	text := func(o *unstructured.Unstructured) (string, error) {
		if o == nil {
			return "", nil
		}
		o = o.DeepCopy()
		o.SetManagedFields(nil)
		b, err := yaml.Marshal(o.Object)
		return string(b), err
	}
	was, err := text(before)
	if err != nil {
		return err
	}
	is, err := text(after)
	if err != nil {
		return err
	}
	_, err = io.WriteString(e.stdout, words.Clean(strings.Join(changes.Lines(was, is, fixContext), "\n"))+"\n")
	return err
}
