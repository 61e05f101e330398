package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// ReadInputs reads what deferred steps ask the clusters for; it is a runner.Runner's. The
// error says which object or key is not there; another attempt asks again.
func (s *Steps) ReadInputs(ctx context.Context, asks []plan.Input) (plan.Inputs, error) {
	known := plan.Inputs{}
	for _, ask := range asks {
		text, err := s.input(ctx, ask)
		if _, absent := errors.AsType[*cluster.AbsentError](err); absent && ask.Optional {
			continue
		}
		if err != nil {
			return nil, classify(err)
		}
		known[ask] = text
	}
	return known, nil
}

// inputKey is a key of a Secret or ConfigMap. Each is read once in a run, so that
// all steps see the same value.
type inputKey struct {
	from plan.Source
	key  plan.KeyRef
}

func (s *Steps) input(ctx context.Context, ask plan.Input) (string, error) {
	ask.Key.Cluster = cmp.Or(ask.Key.Cluster, s.plan.Defaults.Cluster)
	conn := s.conns[ask.Key.Cluster]
	if conn == nil {
		return "", fmt.Errorf("the plan has no cluster %q", ask.Key.Cluster)
	}
	k := inputKey{ask.From, ask.Key}
	text, err := s.reading.Do(ctx, fmt.Sprint(k), func(ctx context.Context) (string, error) {
		if text, known := s.inputs.Load(k); known {
			return text.(string), nil
		}
		resource := cluster.ConfigMaps
		if ask.From == plan.FromSecret {
			resource = cluster.Secrets
		}
		b, err := conn.Value(ctx, resource, ask.Key)
		if err != nil {
			return "", err
		}
		s.inputs.Store(k, string(b))
		return string(b), nil
	})
	if err == nil && ask.Sensitive {
		s.hide(text)
	}
	return text, err
}
