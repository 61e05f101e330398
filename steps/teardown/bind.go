package teardown

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/output"
)

// bind resolves a deferred step by what the cluster tells now: outputs are read from
// the objects that they came from, and the steps before are taken to have succeeded.
func (l *look) bind(ctx context.Context, s plan.Step) (plan.Step, error) {
	known := plan.Inputs{}
	for _, in := range s.Deferred() {
		value, ok, err := l.input(ctx, in)
		if err != nil {
			return s, fmt.Errorf("%s: %w", in, err)
		}
		if ok {
			known[in] = value
		}
	}
	return s.Bind(known)
}

// input answers one question; not ok if there is no answer, and that may be.
func (l *look) input(ctx context.Context, in plan.Input) (value any, ok bool, err error) {
	switch {
	case in.Step == "":
		return l.key(ctx, in)
	case in.Output == "":
		return "succeeded", true, nil
	}
	for _, s := range l.Plan.Steps {
		if s.Name != in.Step {
			continue
		}
		if len(s.Deferred()) > 0 {
			if s, err = l.bind(ctx, s); err != nil {
				return nil, false, err
			}
		}
		session := l.sessions[l.Plan.StepCluster(s)]
		if session == nil {
			return nil, false, fmt.Errorf("the cluster of step %s is not there", s.Name)
		}
		outputs, err := output.New(s.Outputs, s.Namespace())
		if err != nil {
			return nil, false, err
		}
		values, sensitive, err := outputs.Read(ctx, session)
		for _, name := range sensitive {
			l.hide(values[name])
		}
		value, ok = values[in.Output]
		return value, ok, err
	}
	return nil, false, nil
}

// hide keeps a value from being shown.
func (l *look) hide(value any) {
	if set := l.Plan.Sensitive; set != nil {
		set.Add(value)
	}
}

// key reads a key of a Secret or ConfigMap.
func (l *look) key(ctx context.Context, in plan.Input) (any, bool, error) {
	in.Key.Cluster = cmp.Or(in.Key.Cluster, l.Plan.Defaults.Cluster)
	conn := l.conns[in.Key.Cluster]
	if conn == nil {
		return nil, false, fmt.Errorf("the plan has no cluster %q", in.Key.Cluster)
	}
	resource := cluster.ConfigMaps
	if in.From == plan.FromSecret {
		resource = cluster.Secrets
	}
	b, err := conn.Value(ctx, resource, in.Key)
	if absent := (*cluster.AbsentError)(nil); in.Optional && errors.As(err, &absent) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if in.Sensitive {
		l.hide(string(b))
	}
	return string(b), true, nil
}
