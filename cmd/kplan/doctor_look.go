package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/doctor"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// examination looks at clusters, once or again and again.
type examination struct {
	*doctorOptions
	checks []doctor.Check
	places []analyze.Place
	// before are the findings of the look before, as lines.
	before []string
}

// look does the checks in all places, one after the other.
func (e *examination) look(ctx context.Context) (findings.Diagnosis, error) {
	ctx, cancel := e.within(ctx)
	defer cancel()
	r := findings.Diagnosis{Version: readBuild().Version, Findings: []finding.Finding{}}
	for _, c := range e.checks {
		r.Rules = append(r.Rules, c.Rule)
	}
	for _, at := range e.places {
		c, err := doctor.New(at.Config, at.Namespaces...)
		if err != nil {
			return r, err
		}
		report, err := doctor.Examine(ctx, c, e.checks)
		if err != nil {
			return r, runner.WithHint(err, "see whether the API server answers: kubectl get --raw /readyz; --timeout gives it more time")
		}
		for _, f := range report.Findings {
			if f.Cluster = at.Cluster; !slices.ContainsFunc(r.Findings, func(had finding.Finding) bool {
				return had.ID() == f.ID() && had.Message == f.Message && had.Cluster == f.Cluster
			}) {
				r.Findings = append(r.Findings, f)
			}
		}
		for _, text := range report.Unread {
			r.Unread = append(r.Unread, e.oneLine(text))
		}
		r.Blind = r.Blind || report.Blind
		r.Clusters = append(r.Clusters, at.About)
	}
	return r, nil
}

// within bounds one question to the clusters.
func (e *examination) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, e.timeout, fmt.Errorf("there was no answer within %s", e.timeout))
}

// write writes a report in the chosen format.
func (e *examination) write(w io.Writer, r findings.Diagnosis) error {
	if e.output == data.JSON || e.output == data.YAML {
		return e.print(e.output, r)
	}
	if e.output == formatTable {
		r.Findings = slices.Clone(r.Findings)
		for i := range r.Findings {
			r.Findings[i].Hint = e.called(r.Findings[i].Hint)
		}
	}
	return r.Write(w, e.output, findings.Style{Colour: e.colour(tty.Unwrap(w))})
}

// watch looks again until ctx ends, or nobody reads any more.
func (e *examination) watch(ctx context.Context) error {
	out := tty.Unwrap(e.stdout)
	_, _, terminal := tty.Size(out)
	for {
		r, err := e.look(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			e.warn("this look found nothing", err)
		case terminal && e.output == formatTable:
			var text bytes.Buffer
			if err = e.write(&text, r); err == nil {
				err = overdraw(out, text.String())
			}
		default:
			err = e.changes(r)
		}
		if errors.Is(err, syscall.EPIPE) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(e.interval):
		}
	}
}

// changes writes what came and what went since the look before.
func (e *examination) changes(r findings.Diagnosis) error {
	var now []string
	for _, f := range r.Findings {
		now = append(now, fmt.Sprintf("%s %s %s: %s", f.Severity, f.Rule, f.Object, f.Message))
	}
	same := e.before != nil && slices.Equal(now, e.before)
	gone := slices.DeleteFunc(slices.Clone(e.before), func(line string) bool { return slices.Contains(now, line) })
	came := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(e.before, line) })
	e.before = slices.Grow(now, 1) // not nil
	switch {
	case same:
		return nil
	case e.output == data.JSON:
		return e.print(data.JSON, r)
	}
	at := time.Now().Format(time.TimeOnly)
	for _, line := range gone {
		if _, err := fmt.Fprintf(e.stdout, "%s  gone   %s\n", at, e.oneLine(line)); err != nil {
			return err
		}
	}
	for _, line := range came {
		if _, err := fmt.Fprintf(e.stdout, "%s  found  %s\n", at, e.oneLine(line)); err != nil {
			return err
		}
	}
	if len(now) == 0 {
		_, err := fmt.Fprintf(e.stdout, "%s  nothing found\n", at)
		return err
	}
	return nil
}
