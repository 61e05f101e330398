package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// answers are the keys of Secrets and ConfigMaps that were read in this run. Each
// is read once, so that all steps see the same value.
type answers struct {
	mu    sync.Mutex
	byRef map[answerKey]*answer
}

type answerKey struct {
	from plan.Source
	key  plan.KeyRef
}

// answer has room for the one who reads it in turn.
type answer struct {
	turn  chan struct{}
	known bool
	text  string
}

// of gives the place of an answer.
func (a *answers) of(k answerKey) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byRef == nil {
		a.byRef = map[answerKey]*answer{}
	}
	if a.byRef[k] == nil {
		a.byRef[k] = &answer{turn: make(chan struct{}, 1)}
	}
	return a.byRef[k]
}

// Inquire reads what deferred steps ask the clusters for; it is a runner.Runner's. The
// error says which object or key is not there; another attempt asks again.
func (s *Steps) Inquire(ctx context.Context, asks []plan.Input) (plan.Inputs, error) {
	known := plan.Inputs{}
	for _, ask := range asks {
		text, err := s.inquire(ctx, ask)
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

func (s *Steps) inquire(ctx context.Context, ask plan.Input) (string, error) {
	ask.Key.Cluster = cmp.Or(ask.Key.Cluster, s.plan.Defaults.Cluster)
	l := s.conns[ask.Key.Cluster]
	if l == nil {
		return "", fmt.Errorf("the plan has no cluster %q", ask.Key.Cluster)
	}
	a := s.answers.of(answerKey{ask.From, ask.Key})
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if !a.known {
		resource := cluster.ConfigMaps
		if ask.From == plan.FromSecret {
			resource = cluster.Secrets
		}
		b, err := l.Value(ctx, resource, ask.Key)
		if err != nil {
			return "", err
		}
		a.known, a.text = true, string(b)
	}
	if ask.Sensitive {
		s.hide(a.text)
	}
	return a.text, nil
}
