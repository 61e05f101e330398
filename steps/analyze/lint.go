// Package analyze reads what can be known of steps without running them: the objects
// that the rules of kplan lint look at, which steps' objects the plan's own webhooks
// intercept, the order of a cluster's Helm releases, and how its webhooks stand.
//
// It changes nothing in a cluster. What a cluster says to a plan package preflight
// asks.
package analyze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/guard"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// maxValues bounds a file of values that is looked at, in bytes.
const maxValues = 4 << 20

// atOnce is how many charts are fetched side by side.
const atOnce = 4

// LintInput reads what the rules of package lint look at: the objects of the steps'
// files, what their charts render, and their files of values. Charts from afar are
// fetched, unless offline is set. No cluster is asked. The error says what was not
// looked at on purpose, and which webhooks mean nothing; steps that could not be
// read are in the input.
func LintInput(ctx context.Context, p *plan.Plan, from *source.Store, offline bool) (lint.Input, error) {
	read := make([][]manifest.Object, len(p.Steps))
	problems, left := make([]error, len(p.Steps)), make([]error, len(p.Steps))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, s := range p.Steps {
		if offline && (s.Helm != nil && !s.Helm.IsLocal() || source.Fetches(s)) {
			what := "its manifests are"
			if s.Helm != nil {
				what = "its chart is"
			}
			left[i] = fmt.Errorf("step %q: %s not fetched while offline", s.Name, what)
			continue
		}
		group.Go(func() error {
			read[i], problems[i] = manifest.Planned(ctx, s, from)
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	objects := make(map[string][]manifest.Object, len(p.Steps))
	for i, s := range p.Steps {
		objects[s.Name] = read[i]
	}
	placed(slices.Concat(read...))
	r := &lintReader{plan: p, texts: map[string]*document.Source{}}
	in := lint.Input{Plan: p, Objects: make(map[string][]lint.Object, len(p.Steps)), Canaries: r.canaries(ctx, from), Unread: map[string]error{}, Values: r.values()}
	for i, s := range p.Steps {
		switch {
		case problems[i] == nil:
		case len(s.Deferred()) > 0: // what it asks for may be what the chart lacks
			left[i] = fmt.Errorf("step %q: %w", s.Name, problems[i])
		default:
			in.Unread[s.Name] = problems[i]
		}
		for _, o := range read[i] {
			in.Objects[s.Name] = append(in.Objects[s.Name], r.object(s, o))
		}
	}
	guards, err := guard.Find(ctx, p, func(_ context.Context, s plan.Step) ([]manifest.Object, error) {
		return objects[s.Name], nil
	}, func(string) guard.Known { return guard.Known{} })
	for _, g := range guards {
		in.Guards = append(in.Guards, lint.Guard{Step: g.Step, By: g.By, Webhooks: g.Webhooks, Objects: g.Objects, Maybe: g.Maybe})
	}
	return in, errors.Join(errors.Join(left...), err)
}

// placed takes the namespace from objects whose kinds have none.
func placed(objects []manifest.Object) {
	namespaced := guard.Namespaced(manifest.Bare(objects))
	for _, o := range objects {
		if o.GetNamespace() != "" && !namespaced(o.GroupVersionKind()) {
			o.SetNamespace("")
		}
	}
}

// lintReader reads the files of a plan, each document once.
type lintReader struct {
	plan  *plan.Plan
	texts map[string]*document.Source // by file and line
}

// canaries are the objects with which webhook steps ask. Files that cannot be read are
// left out: kplan validate says so.
func (r *lintReader) canaries(ctx context.Context, from *source.Store) map[string][]lint.Object {
	canaries := map[string][]lint.Object{}
	for _, s := range r.plan.Steps {
		if s.Webhook == nil || s.Webhook.Canary == nil {
			continue
		}
		asks := s
		asks.Apply = &plan.Apply{Files: s.Webhook.Canary.Files(), Namespace: s.Webhook.Namespace}
		asks.Webhook = nil
		read, _ := manifest.Objects(ctx, asks, from)
		for _, o := range read {
			canaries[s.Name] = append(canaries[s.Name], r.object(s, o))
		}
	}
	return canaries
}

// object is an object of a step with its place.
func (r *lintReader) object(s plan.Step, o manifest.Object) lint.Object {
	found := lint.Object{Fields: o.Object, At: o.At}
	switch {
	case o.File != "":
		found.Text = r.text(o)
	case o.Field != nil:
		found.Text, found.At = s.Origin.Text, slices.Concat(s.Origin.At, o.Field)
	case s.Apply != nil:
		found.Text, found.At = s.Origin.Text, slices.Concat(s.Origin.At, []any{"apply", "objects"}, o.At)
	}
	return found
}

// text is the document of an object.
func (r *lintReader) text(f manifest.Object) *document.Source {
	key := fmt.Sprintf("%s:%d", f.File, f.Line)
	t, ok := r.texts[key]
	if !ok {
		t = document.NewPart(r.plan.Rel(f.File), f.Line, f.Document)
		r.texts[key] = t
	}
	return t
}

// values are the files of values of all helm steps, each once. Those that cannot
// be read are left out: the chart's rendering says so.
func (r *lintReader) values() []*document.Source {
	var texts []*document.Source
	seen := map[string]bool{}
	for _, s := range r.plan.Steps {
		if s.Helm == nil {
			continue
		}
		for _, name := range plan.Paths(s.Helm.ValuesFiles) {
			file := s.Path(name)
			if seen[file] {
				continue
			}
			seen[file] = true
			if src, err := readUpTo(file, maxValues); err == nil {
				texts = append(texts, document.NewPart(r.plan.Rel(file), 1, src))
			}
		}
	}
	return texts
}

// readUpTo reads a file that has at most that many bytes.
func readUpTo(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(src)) > most {
		err = errors.New("the file is too large")
	}
	return src, err
}

// Guards tells which steps' objects the plan's own webhooks intercept, as far as
// manifests tell, without a cluster. Charts are rendered, and fetched where they
// are not local. The error says which steps could not be read; the guards of
// the others are returned all the same.
func Guards(ctx context.Context, p *plan.Plan, from *source.Store) ([]runner.Guard, error) {
	return guard.Find(ctx, p, func(ctx context.Context, s plan.Step) ([]manifest.Object, error) {
		return manifest.Planned(ctx, s, from)
	}, func(string) guard.Known { return guard.Known{} })
}
