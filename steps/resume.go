package steps

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// memory is what the steps know of earlier runs. The zero value knows nothing.
type memory struct {
	key ledger.Key
	// record is that of the run which is gone on with; nil when none is.
	record *ledger.Record

	mu sync.Mutex
	// anew are the steps that were not done, or not so, before this run, those that had
	// to be done again, and those that need one of them.
	anew map[string]bool
}

// Remember tells the steps of the runs before, which make their digests with the same
// key. With resume they skip what was done and still holds. It is called before the
// run.
func (s *Steps) Remember(past ledger.Past, resume bool) {
	s.memory.key = past.Key
	if resume {
		s.memory.record = past.Record
	}
}

// before returns how an earlier run did a step that is made of the same now; nil if
// none did, and if a step that it needs was not done so.
func (m *memory) before(step plan.Step, digest string) *ledger.Step {
	if m.record == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	then := m.record.Step(step.Name)
	if then == nil || then.Done == nil || digest == "" || then.Done.Digest != digest ||
		slices.ContainsFunc(step.Needs, func(n plan.Need) bool { return m.anew[n.Step] }) {
		m.again(step)
		return nil
	}
	return then
}

// again notes that a step was done anew. The caller has locked m.
func (m *memory) again(step plan.Step) {
	if m.anew == nil {
		m.anew = map[string]bool{}
	}
	m.anew[step.Name] = true
}

// done notes that a step was done anew: it has changed something, or may have.
func (m *memory) done(step plan.Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.again(step)
}

// remembered tells of what the step is made, and skips it if an earlier run is gone
// on with that did the same and what it did still holds. What the step writes only
// where something is to be changed is checked by doing it.
func (s *Steps) remembered(step plan.Step, c *cluster.Cluster, inner sessionAction) sessionAction {
	if len(s.memory.key) == 0 {
		return inner
	}
	return doOver(func(ctx context.Context, session *cluster.Session, r runner.Reporter) error {
		digest := s.digest(ctx, step, c)
		then := s.memory.before(step, digest)
		run := func(d *digesting) error {
			err := inner.Run(ctx, session, d)
			if err != nil || d.changed.Load() {
				s.memory.done(step)
			}
			return err
		}
		if then == nil || s.force[step.Name] {
			return run(&digesting{Reporter: r, digest: digest})
		}
		holds := false
		switch kind := inner.(type) {
		case *helm.Action:
			var err error
			if holds, err = kind.Holds(ctx, session, r, then.Revision); ctx.Err() != nil {
				return cmp.Or(err, context.Cause(ctx))
			}
		default: // it looks before it writes
			holds = step.Kind() == plan.KindDelete // what came since is another step's
		}
		if !holds {
			return run(&digesting{Reporter: r, digest: digest, run: then.Done.Run})
		}
		r.Report(runner.Report{
			Type: runner.TypeResult, Unchanged: true, Digest: digest, Message: doneIn(then.Done.Run), Revision: then.Revision, Release: then.Release,
		})
		return nil
	})
}

func doneIn(run string) string { return "done in run " + run }

// digesting adds to the result of which the step is made, and which run did it
// before.
type digesting struct {
	runner.Reporter
	digest, run string
	changed     atomic.Bool // the result says so
}

// Report implements runner.Reporter.
func (d *digesting) Report(r runner.Report) {
	if r.Type == runner.TypeResult {
		r.Digest = d.digest
		d.changed.Store(!r.Unchanged)
		if r.Unchanged && d.run != "" {
			r.Message += ", " + doneIn(d.run)
		}
	}
	d.Reporter.Report(r)
}

// made is what a step is made of. A chart is as its version says, where that is one
// and no constraint, else as it is.
type made struct {
	Cluster   string                    `json:"cluster"`
	Namespace string                    `json:"namespace"`
	Helm      *plan.Helm                `json:"helm,omitempty"`
	Apply     *plan.Apply               `json:"apply,omitempty"`
	Wait      *plan.Wait                `json:"wait,omitempty"`
	Webhook   *plan.Webhook             `json:"webhook,omitempty"`
	Delete    *plan.Delete              `json:"delete,omitempty"`
	Outputs   map[string]plan.Output    `json:"outputs,omitempty"`
	Ready     map[string]plan.Readiness `json:"ready,omitempty"`
	Files     []string                  `json:"files,omitempty"`
	Chart     string                    `json:"chart,omitempty"`
}

// exact is a version that is one, and no constraint.
var exact = regexp.MustCompile(`^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// digest tells what a step is made of from all else; "" when it cannot be read.
func (s *Steps) digest(ctx context.Context, step plan.Step, c *cluster.Cluster) string {
	m := made{
		Cluster: s.plan.StepCluster(step), Namespace: c.Namespace(), Outputs: step.Outputs, Ready: step.Ready,
		Helm: step.Helm, Apply: step.Apply, Wait: step.Wait, Webhook: step.Webhook, Delete: step.Delete,
	}
	texts, err := s.texts(ctx, step)
	if err != nil {
		return ""
	}
	for _, text := range texts {
		sum := sha256.Sum256(text)
		m.Files = append(m.Files, hex.EncodeToString(sum[:]))
	}
	if h := step.Helm; h != nil && (h.IsLocal() || !exact.MatchString(h.Version)) {
		chart, err := s.chart(step, c.Namespace())
		if err != nil {
			return ""
		}
		ch, err := chart.Source.Load(ctx)
		if err != nil {
			return ""
		}
		m.Chart = charts.Digest(ch)
	}
	return s.memory.key.Digest(m)
}

// texts are what a step reads, but for its chart: what was encrypted in plain, and what
// is built as it comes out.
func (s *Steps) texts(ctx context.Context, step plan.Step) ([][]byte, error) {
	var all [][]byte
	switch {
	case step.Helm != nil:
		for _, name := range step.Helm.ValuesFiles {
			text, err := s.sources.Values(ctx, step, name)
			if err != nil {
				return nil, err
			}
			all = append(all, text.Bytes)
		}
		for _, name := range slices.Sorted(maps.Keys(step.Helm.SetFile)) {
			text, err := os.ReadFile(step.Path(step.Helm.SetFile[name]))
			if err != nil {
				return nil, err
			}
			all = append(all, text)
		}
	case step.Apply != nil, step.Delete != nil:
		texts, err := s.sources.Manifests(ctx, step)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			all = append(all, text.Bytes)
		}
	case step.Webhook != nil:
		names := slices.Clone(step.Webhook.Files)
		if c := step.Webhook.Canary; c != nil {
			names = slices.Concat(names, c.Files())
		}
		files, err := step.Files(names)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, text)
		}
	}
	return all, nil
}
