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
	"path/filepath"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/steps/internal/charts"
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
func LintInput(ctx context.Context, p *plan.Plan, offline bool) (lint.Input, error) {
	r := &lintReader{plan: p, texts: map[string]*document.Text{}}
	objects := make([][]lint.Object, len(p.Steps))
	manifests := make(map[string][]*unstructured.Unstructured, len(p.Steps))
	problems, left := make([]error, len(p.Steps)), make([]error, len(p.Steps))
	charts := make([][]*unstructured.Unstructured, len(p.Steps))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, s := range p.Steps {
		switch {
		case s.Apply != nil:
			objects[i], problems[i] = r.applied(s)
		case s.Helm != nil && offline && !s.Helm.IsLocal():
			left[i] = fmt.Errorf("step %q: its chart is not fetched while offline", s.Name)
		case s.Helm != nil:
			group.Go(func() error {
				charts[i], problems[i] = rendered(ctx, p, s)
				return nil
			})
		}
	}
	_ = group.Wait() // each has its own error
	var all []*unstructured.Unstructured
	for i, s := range p.Steps {
		for _, u := range charts[i] {
			objects[i] = append(objects[i], lint.Object{Fields: u.Object})
		}
		for _, o := range objects[i] {
			manifests[s.Name] = append(manifests[s.Name], &unstructured.Unstructured{Object: o.Fields})
		}
		all = append(all, manifests[s.Name]...)
	}
	namespaced := guard.Namespaced(all)
	for _, u := range all {
		if u.GetNamespace() != "" && !namespaced(u.GroupVersionKind()) {
			u.SetNamespace("")
		}
	}
	in := lint.Input{Plan: p, Objects: make(map[string][]lint.Object, len(p.Steps)), Unread: map[string]error{}, Values: r.values()}
	for i, s := range p.Steps {
		switch {
		case problems[i] == nil:
		case len(s.Deferred()) > 0: // what it asks for may be what the chart lacks
			left[i] = fmt.Errorf("step %q: %w", s.Name, problems[i])
		default:
			in.Unread[s.Name] = problems[i]
		}
		if len(objects[i]) > 0 {
			in.Objects[s.Name] = objects[i]
		}
	}
	guards, err := guard.Find(ctx, p, func(_ context.Context, s plan.Step) ([]*unstructured.Unstructured, error) {
		return manifests[s.Name], nil
	}, func(string) guard.Known { return guard.Known{} })
	for _, g := range guards {
		in.Guards = append(in.Guards, lint.Guard{Step: g.Step, By: g.By, Webhooks: g.Webhooks, Objects: g.Objects, Maybe: g.Maybe})
	}
	return in, errors.Join(errors.Join(left...), err)
}

// lintReader reads the files of a plan, each document once.
type lintReader struct {
	plan  *plan.Plan
	texts map[string]*document.Text // by file and line
}

// rendered are the objects of a step's chart.
func rendered(ctx context.Context, p *plan.Plan, s plan.Step) ([]*unstructured.Unstructured, error) {
	chart, err := charts.New(p.In(s), s, metav1.NamespaceDefault)
	if err != nil {
		return nil, err
	}
	return chart.Render(ctx, charts.Capabilities{})
}

// applied are the objects of an apply step with their places.
func (r *lintReader) applied(s plan.Step) ([]lint.Object, error) {
	found, err := manifest.Find(r.plan, *s.Apply)
	objects := make([]lint.Object, len(found))
	for i, f := range found {
		o := lint.Object{Fields: f.Object.Object, At: f.At}
		if f.File == "" {
			text, at := s.Origin.Text, s.Origin.At
			o.Text, o.At = text, append(append(append([]any{}, at...), "apply", "objects"), f.At...)
		} else {
			o.Text = r.text(f)
		}
		objects[i] = o
	}
	return objects, err
}

// text is the document of an object.
func (r *lintReader) text(f manifest.Found) *document.Text {
	key := fmt.Sprintf("%s:%d", f.File, f.Line)
	t, ok := r.texts[key]
	if !ok {
		t = document.NewText(r.shown(f.File), f.Line, f.Document)
		r.texts[key] = t
	}
	return t
}

// shown is the path of a file as whoever named the plan would name it.
func (r *lintReader) shown(file string) string {
	rel, err := filepath.Rel(r.plan.Dir, file)
	if err != nil {
		return file
	}
	return filepath.Join(filepath.Dir(r.plan.File), rel)
}

// values are the files of values of all helm steps, each once. Those that cannot
// be read are left out: the chart's rendering says so.
func (r *lintReader) values() []*document.Text {
	var texts []*document.Text
	seen := map[string]bool{}
	for _, s := range r.plan.Steps {
		if s.Helm == nil {
			continue
		}
		for _, name := range s.Helm.ValuesFiles {
			file := r.plan.Abs(name)
			if seen[file] {
				continue
			}
			seen[file] = true
			if src, err := readUpTo(file, maxValues); err == nil {
				texts = append(texts, document.NewText(r.shown(file), 1, src))
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
