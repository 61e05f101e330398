package steps

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/apply"
	"github.com/kplan-dev/kplan/steps/diff"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/dryrun"
	"github.com/kplan-dev/kplan/steps/internal/readiness"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/steps/status"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// surveying bounds how long the webhooks of a step may take to be read.
const surveying = 5 * time.Second

// Health looks how the plan's steps stand, side by side; parallel is how many steps at
// once. Nothing is written, nor held. The record of the last run says what steps asked
// of others; it may be nil. The error is that of the context.
func (s *Steps) Health(ctx context.Context, parallel int, last *ledger.Record) ([]status.Step, error) {
	all := make([]status.Step, len(s.plan.Steps))
	slots := make(chan struct{}, parallel)
	h := &checkup{s, last}
	var looks sync.WaitGroup
	for i, step := range s.plan.Steps {
		looks.Go(func() {
			all[i] = status.Step{Name: step.Name, Kind: step.Kind(), Cluster: s.plan.StepCluster(step)}
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return
			}
			if err := h.step(ctx, step, &all[i]); err != nil {
				all[i].Health, all[i].Message = status.Unknown, clean.Line(err.Error())
			}
		})
	}
	looks.Wait()
	return all, context.Cause(ctx)
}

// checkup looks how steps stand after a run.
type checkup struct {
	*Steps
	last *ledger.Record // nil if none is known
}

// step looks how one step stands.
func (h *checkup) step(ctx context.Context, step plan.Step, to *status.Step) error {
	step, unknown, err := h.bindAsRun(ctx, step)
	switch {
	case err != nil:
		return err
	case unknown != "":
		to.Health, to.Message = status.Unknown, unknown
		return nil
	case step.Skip != "":
		to.Health, to.Message = status.Skipped, step.Skip
		return nil
	}
	if step.Kind() == plan.KindDelete { // what is gone may be there again for good reasons
		to.Health, to.Message = status.Unknown, "no run is recorded that did it"
		if before := recorded(h.last, step.Name); before != nil && before.Done != nil {
			to.Health, to.Message = status.Healthy, "done in run "+before.Done.Run
		}
		return nil
	}
	conn, err := h.bound(step)
	if err != nil {
		return err
	}
	c, err := conn.Connect(ctx)
	if absent, is := errors.AsType[*cluster.AbsentError](err); is {
		to.Health, to.Message = status.Absent, "the cluster is not there: "+absent.Error()
		return nil
	}
	if err != nil {
		return err
	}
	rules, err := readiness.New(step.Ready)
	if err != nil {
		return err
	}
	session, err := c.Session(cluster.Options{Ready: rules, Wrap: dryrun.Wrap})
	if err != nil {
		return err
	}
	kind, err := h.kind(step, c)
	if err != nil {
		return err
	}
	return h.on(ctx, kind, c, session, to)
}

// on looks how a step stands on its cluster.
func (h *checkup) on(ctx context.Context, kind sessionAction, c *cluster.Cluster, session *cluster.Session, to *status.Step) error {
	switch a := kind.(type) {
	case *helm.Action:
		r, standings, err := a.Health(ctx, session)
		if r == nil {
			to.Health, to.Message = status.Absent, "the release is not installed"
			return err
		}
		to.Release = &status.Release{
			Namespace: r.Namespace, Name: r.Name, Revision: r.Number, Status: r.Status, Chart: r.Chart, Updated: r.Updated,
		}
		if err != nil {
			return err
		}
		h.stand(to, standings)
		if r.Status != "deployed" {
			to.Health, to.Message = status.Unhealthy, fmt.Sprintf("revision %d is %s", r.Number, r.Status)
		}
		owner := r.Namespace + "/" + r.Name
		withWebhooks(ctx, c, to, func(e webhook.Entry) bool { return e.Owner.Release == owner })
	case *apply.Action:
		standings, err := a.Health(ctx, session)
		if err != nil {
			return err
		}
		h.stand(to, standings)
		names := map[string]bool{}
		for _, st := range standings {
			names[st.Target.Kind.Kind+"/"+st.Target.Name] = true
		}
		withWebhooks(ctx, c, to, func(e webhook.Entry) bool { src := e.Source(); return names[src.Kind+"/"+src.Name] })
	default:
		p := &preview{}
		p.look(ctx, kind, session)
		to.Message, to.Health = p.result.Message, status.Healthy
		if p.result.State != diff.Unchanged {
			to.Health = status.Unhealthy
		}
	}
	return nil
}

// stand takes how the objects of a step stand.
func (h *checkup) stand(to *status.Step, standings []watch.Standing) {
	to.Objects = len(standings)
	for _, st := range standings {
		name := st.Target.Object()
		if len(st.Drift) > 0 {
			d := status.Drift{Object: name}
			for _, f := range st.Drift {
				d.Fields = append(d.Fields, f.Hidden(h.plan.Sensitive.Text).String())
			}
			to.Drift = append(to.Drift, d)
		}
		switch {
		case st.Missing:
			to.Troubles = append(to.Troubles, status.Trouble{Object: name, State: status.Missing, Reason: missingReason(st)})
		case st.Reading.State == watch.Reached:
			to.Ready++
		default:
			to.Troubles = append(to.Troubles, status.Trouble{Object: name, State: string(st.Reading.State), Reason: st.Reading.Reason})
		}
	}
	to.Judge()
}

func missingReason(st watch.Standing) string {
	if st.Reading.Reason == "not found" {
		return ""
	}
	return st.Reading.Reason
}

// withWebhooks adds how the step's webhooks stand. One that cannot answer is a fault of
// the step, unless nobody needs its answer.
func withWebhooks(ctx context.Context, c *cluster.Cluster, to *status.Step, match func(webhook.Entry) bool) {
	to.Webhooks = webhooksOf(ctx, c, match)
	for _, w := range to.Webhooks {
		if r, missing := w.Ladder.Missing(); missing && w.FailurePolicy != admissionv1.Ignore && to.Health == status.Healthy {
			to.Health, to.Message = status.Unhealthy, clean.Line("webhook "+w.Name+" cannot answer: "+r.String())
		}
	}
}

// webhooksOf reads how webhooks stand; those that cannot be read in time are as far as
// they are known.
func webhooksOf(ctx context.Context, c *cluster.Cluster, match func(webhook.Entry) bool) []survey.Status {
	changed := make(chan struct{}, 1)
	following := c.Survey.Subscribe(survey.Target{Match: match, Conversions: true}, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer following.Close()
	for late := time.After(surveying); !following.Synced(); {
		select {
		case <-changed:
			continue
		case <-late:
		case <-ctx.Done():
		}
		break
	}
	return following.Statuses()
}

// recorded is a step of a record; nil without.
func recorded(r *ledger.Record, step string) *ledger.Step {
	if r == nil {
		return nil
	}
	return r.Step(step)
}

// bindAsRun gives a deferred step the values that it had in the last run; unknown says
// which are not known.
func (h *checkup) bindAsRun(ctx context.Context, step plan.Step) (_ plan.Step, unknown string, err error) {
	if step.Skip != "" {
		return step, "", nil
	}
	inputs := plan.Inputs{}
	for _, ask := range step.Deferred() {
		if ask.Step == "" {
			text, err := h.input(ctx, ask)
			if _, absent := errors.AsType[*cluster.AbsentError](err); absent && ask.Optional {
				continue
			}
			if err != nil {
				return step, "", err
			}
			inputs[ask] = text
			continue
		}
		before := recorded(h.last, ask.Step)
		switch {
		case before == nil:
			return step, "it asks for " + ask.String() + ", of which no run is recorded", nil
		case ask.Output == "":
			inputs[ask] = string(before.State)
		default:
			v, has := before.Outputs[ask.Output]
			if !has {
				return step, "it asks for " + ask.String() + ", which is not recorded", nil
			}
			inputs[ask] = v
		}
	}
	step, err = step.Bind(inputs)
	return step, "", err
}
