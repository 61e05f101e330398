package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/webhooks"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/doctor/explain"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/analyze"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// liveWebhook is how a webhook stands that an error is about.
type liveWebhook struct {
	webhooks.Webhook
	// Class is that of the error, as the cluster decides it.
	Class explain.Class `json:"class"`
}

// look reads how the webhooks stand that errors are about. That no cluster can be
// reached is a note, and no error.
func (o *explainOptions) look(ctx context.Context, all []explained) error {
	var about []*explained
	for i := range all {
		if f := all[i].Fault; f != nil && (f.Kind == webhook.Admission || f.Kind == webhook.Conversion) {
			about = append(about, &all[i])
		}
	}
	if len(about) == 0 {
		return nil
	}
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	late := errors.New("it does not answer within " + words.Exact(o.timeout))
	bound, cancel := context.WithTimeoutCause(ctx, o.timeout, late)
	defer cancel()
	view, err := analyze.Survey(bound, o.flags, userAgent())
	if err != nil {
		if stop, ok := errors.AsType[*runner.Interrupted](context.Cause(ctx)); ok {
			return &shownError{stop}
		}
		if bound.Err() != nil {
			err = context.Cause(bound)
		}
		o.unseen(err)
		return nil
	}
	defer view.Close()
	for _, e := range about {
		all, err := webhooksOf(bound, view, *e.Fault)
		if stop, ok := errors.AsType[*runner.Interrupted](context.Cause(ctx)); ok {
			return &shownError{stop}
		}
		if err != nil {
			o.unseen(err)
			return nil
		}
		e.Live = all
	}
	return nil
}

// unseen tells that the cluster was not looked at.
func (o *explainOptions) unseen(err error) {
	fmt.Fprintf(o.stderr, "note: explained by its text alone; the cluster was not looked at: %s\n", o.oneLine(err.Error()))
}

// webhooksOf reads how the webhooks stand that a fault can be of.
func webhooksOf(ctx context.Context, view *survey.Survey, f webhook.Fault) ([]liveWebhook, error) {
	changed := make(chan struct{}, 1) // filled by the survey until it is closed
	following := view.Subscribe(survey.Target{Fault: &f}, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer following.Close()
	for !following.Synced() {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		}
	}
	var all []liveWebhook
	for _, s := range following.Statuses() {
		class := f.Class
		if s.Configuration != "" {
			class = webhook.Reclassify(f, &s.Entry, s.Backing, time.Now())
		}
		all = append(all, liveWebhook{Webhook: webhooks.Of([]survey.Status{s})[0], Class: explain.Class(class)})
	}
	return all, nil
}

// lines say how the webhook stands, for people. told is the class of the text.
func (l liveWebhook) lines(told explain.Class) []string {
	if l.Configuration == "" && l.Lowest.Rung == webhook.Configured && l.Lowest.State == webhook.Waiting {
		return []string{"no such webhook is configured in this cluster: it is gone, or the error is of another cluster"}
	}
	if !l.Failing() {
		lines := []string{fmt.Sprintf("%s %s: nothing that was read keeps it from answering", l.Kind, l.ID())}
		if told == explain.Denied {
			return lines
		}
		return append(lines, "what was in the way is over, or only a call shows it: kplan wait webhook --configuration "+l.Configuration)
	}
	lines := []string{fmt.Sprintf("%s %s is not %s", l.Kind, l.ID(), l.Lowest.String())}
	if l.Explanation != "" {
		lines = append(lines, "in words: "+l.Explanation)
	}
	if owner := l.Owner.String(); owner != "" {
		lines = append(lines, "it is of "+owner)
	}
	if l.Class != told {
		lines = append(lines, fmt.Sprintf("class: %s, and not %s as the text suggests: %s", l.Class, told, l.Class.Again()))
	}
	return lines
}
