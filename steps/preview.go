package steps

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/diff"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/dryrun"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/internal/output"
)

// How long a step that waits is looked at. What holds is seen at once, but for webhooks
// that are to answer several times.
const (
	glance        = time.Second
	webhookGlance = 10 * time.Second
)

// Diff finds what the plan's steps would change, side by side; parallel is how many
// steps at once. Nothing is written: all requests that could are dry runs, and none is
// held. Each step is told when it is known. The error is that of the context; what
// fails otherwise is said of its step.
func (s *Steps) Diff(ctx context.Context, parallel int, done func(diff.Step)) (*diff.Diff, error) {
	var (
		all      = s.plan.Steps
		found    = make([]*preview, len(all))
		d        = &comparison{s, map[string]*preview{}, make(chan struct{}, parallel)}
		previews sync.WaitGroup
		telling  sync.Mutex
	)
	for i, step := range all {
		found[i] = &preview{step: step, known: make(chan struct{})}
		d.previews[step.Name] = found[i]
	}
	previews.Go(func() { s.sources.Ahead(ctx, all, nil) }) // ends with the context
	for _, p := range found {
		previews.Go(func() { // ends with its steps' previews or the context
			defer close(p.known)
			p.result = diff.Step{Name: p.step.Name, Kind: p.step.Kind(), Cluster: s.plan.StepCluster(p.step)}
			if err := d.preview(ctx, p); err != nil {
				p.result.State, p.result.Message = diff.Fails, err.Error()
				if hint := runner.HintOf(err); hint != "" {
					p.result.Message += "; " + hint
				}
			}
			if set := s.plan.Sensitive; set != nil {
				p.result.Hide(set.Text)
			}
			telling.Lock()
			defer telling.Unlock()
			done(p.result)
		})
	}
	previews.Wait()
	whole := &diff.Diff{Plan: s.plan.Metadata.Name}
	for _, p := range found {
		whole.Add(p.result)
	}
	return whole, context.Cause(ctx)
}

// comparison looks at all steps of a plan.
type comparison struct {
	*Steps
	previews map[string]*preview // by the steps' names
	slots    chan struct{}       // one entry for each step that is looked at
}

// preview is what becomes known of one step. Its fields are written before known is
// closed, and read after that.
type preview struct {
	step    plan.Step
	result  diff.Step
	outputs map[string]any
	known   chan struct{}
}

// preview finds what one step would do.
func (d *comparison) preview(ctx context.Context, p *preview) error {
	if p.step.Skip != "" {
		p.result.State, p.result.Message = diff.Skipped, p.step.Skip
		return nil
	}
	step, unknown, err := d.bind(ctx, p.step)
	switch {
	case err != nil:
		return err
	case unknown != "":
		p.result.State, p.result.Message = diff.Unknown, unknown
		return nil
	case step.Skip != "":
		p.result.State, p.result.Message = diff.Skipped, step.Skip
		return nil
	}
	p.step = asked(step)
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	conn, err := d.bound(step)
	if err != nil {
		return err
	}
	c, err := conn.Connect(ctx)
	if absent, is := errors.AsType[*cluster.AbsentError](err); is {
		return d.offline(ctx, p, conn.Namespace(), "the cluster is not there yet: "+absent.Error())
	}
	if err != nil {
		return err
	}
	return d.previewOn(ctx, p, c)
}

// asked returns a step for a diff, which asks webhooks once: whether they go on
// answering is for the run to see.
func asked(step plan.Step) plan.Step {
	if step.Webhook != nil {
		once := *step.Webhook
		once.Stable = 1
		step.Webhook = &once
	}
	return step
}

// objectPreviewer is an action that can tell what would become of objects.
type objectPreviewer interface {
	Preview(context.Context, *cluster.Session) ([]*dryrun.Object, error)
}

// previewOn finds what a step would do on a cluster that is there.
func (d *comparison) previewOn(ctx context.Context, p *preview, c *cluster.Cluster) error {
	session, err := c.Session(cluster.Options{Expect: d.expect(p.step), Wrap: dryrun.Wrap})
	if err != nil {
		return err
	}
	kind, err := d.kind(p.step, c)
	if err != nil {
		return err
	}
	switch a := kind.(type) {
	case *helm.Action:
		release, err := a.Preview(ctx, session)
		if err != nil {
			return err
		}
		if err := p.result.Helm(release); err != nil {
			return err
		}
	case objectPreviewer: // apply and delete
		objects, err := a.Preview(ctx, session)
		if err != nil {
			return err
		}
		if err := p.result.Apply(objects); err != nil {
			return err
		}
	default:
		p.look(ctx, a, session)
	}
	outputs, err := output.New(p.step.Outputs, p.step.Namespace())
	if err != nil || outputs.Empty() {
		return err
	}
	values, sensitive, err := outputs.Read(ctx, session)
	if err != nil {
		return nil //nolint:nilerr // they come with the run: steps that ask for them say so
	}
	for _, name := range sensitive {
		d.hide(values[name])
	}
	p.outputs = values
	return nil
}

// look sees whether what a step waits for is so now.
func (p *preview) look(ctx context.Context, a sessionAction, session *cluster.Session) {
	patience := glance
	if p.step.Kind() == plan.KindWebhook {
		patience = webhookGlance
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, &runner.TimeoutError{After: patience})
	defer cancel()
	last := &lastReport{}
	err := a.Run(ctx, session, last)
	p.result.Message = last.message()
	if err == nil {
		p.result.State = diff.Unchanged
		return
	}
	p.result.State = diff.Unknown
	waits := "it would wait"
	timeout, is := errors.AsType[*runner.TimeoutError](err)
	if is && timeout.For != "" {
		waits += " for " + timeout.For
	}
	if is && timeout.Last != "" {
		p.result.Message = timeout.Last
	} else if !is {
		p.result.Message = err.Error()
	}
	p.result.Message = waits + ": " + p.result.Message
}

// lastReport keeps what an action said last.
type lastReport struct {
	mu   sync.Mutex
	text string
}

// Report implements runner.Reporter.
func (l *lastReport) Report(r runner.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Type != runner.TypeLog && r.Message != "" {
		l.text = r.Message
	}
}

func (l *lastReport) message() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// offline renders what a step would send to a cluster that is not there.
func (d *comparison) offline(ctx context.Context, p *preview, namespace, why string) error {
	var chart *charts.Chart
	var err error
	switch p.step.Kind() {
	case plan.KindHelm:
		if chart, err = d.chart(p.step, namespace); err != nil {
			return err
		}
	case plan.KindApply:
	case plan.KindDelete:
		p.result.State, p.result.Message = diff.Unchanged, "nothing is there"
		return nil
	default:
		p.result.State, p.result.Message = diff.Unknown, why
		return nil
	}
	objects, err := manifest.Of(ctx, p.step, d.sources, chart, charts.Capabilities{})
	if err != nil {
		return err
	}
	return p.result.Offline(manifest.Bare(objects), why)
}

// bind gives a deferred step its values, as far as they are known before the run: the
// states and outputs of other steps as they would be, and what clusters have. unknown
// says which are not.
func (d *comparison) bind(ctx context.Context, step plan.Step) (_ plan.Step, unknown string, err error) {
	inputs := plan.Inputs{}
	for _, ask := range step.Deferred() {
		switch other := d.previews[ask.Step]; {
		case ask.Step == "":
			text, err := d.input(ctx, ask)
			if _, absent := errors.AsType[*cluster.AbsentError](err); absent {
				if !ask.Optional {
					return step, "it asks for " + ask.String() + ", which is not there yet", nil
				}
				continue
			}
			if err != nil {
				return step, "", err
			}
			inputs[ask] = text
		case other == nil:
			return step, "it asks for " + ask.String(), nil
		default:
			select {
			case <-other.known:
			case <-ctx.Done():
				return step, "", context.Cause(ctx)
			}
			v, known := other.answer(ask)
			if !known {
				return step, "it asks for " + ask.String() + ", which is known only in the run", nil
			}
			inputs[ask] = v
		}
	}
	step, err = step.Bind(inputs)
	return step, "", err
}

// answer is what a step will have answered, as far as that is known.
func (p *preview) answer(ask plan.Input) (any, bool) {
	if ask.Output != "" {
		v, has := p.outputs[ask.Output]
		return v, has && p.result.State == diff.Unchanged
	}
	switch p.result.State {
	case diff.Unchanged:
		return string(runner.StateUnchanged), p.step.Kind() == plan.KindHelm || p.step.Kind() == plan.KindApply
	case diff.Changes:
		return string(runner.StateSucceeded), true
	case diff.Skipped:
		return string(runner.StateSkipped), true
	case diff.Fails, diff.Unknown:
	}
	return nil, false
}
