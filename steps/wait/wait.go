// Package wait is the wait step: it waits until objects are as described, in
// the syntax of kubectl wait, by watch.
//
// The description itself is parsed by package plan. Unlike kubectl, an object
// or kind that is not there yet is waited for whatever the condition; only
// "delete" is satisfied by absence.
package wait

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/jsonpath"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// Action waits for the objects of one step.
type Action struct {
	target    watch.Target
	condition plan.Condition
	judge     func(*unstructured.Unstructured) watch.Reading
}

// New reads the description of a wait step; namespace is that of objects whose step
// names none. The cluster is asked in Run only.
func New(spec plan.Wait, namespace string) (*Action, error) {
	target, err := targetOf(spec, namespace)
	if err != nil {
		return nil, runner.Permanent(fmt.Errorf("resource: %w", err))
	}
	condition, err := spec.Condition()
	if err != nil {
		return nil, runner.Permanent(fmt.Errorf("for: %w", err))
	}
	judge, err := judgeOf(condition)
	if err != nil {
		return nil, runner.Permanent(fmt.Errorf("for: %w", err))
	}
	return &Action{target: target, condition: condition, judge: judge}, nil
}

// targetOf reads TYPE/NAME, or TYPE with a selector.
func targetOf(spec plan.Wait, namespace string) (watch.Target, error) {
	kind, name, named := strings.Cut(spec.Resource, "/")
	switch {
	case kind == "":
		return watch.Target{}, errors.New("the type is missing")
	case strings.ContainsAny(kind, ", "):
		return watch.Target{}, fmt.Errorf("%q is not one type; a wait step waits for one", kind)
	case named && (name == "" || strings.Contains(name, "/")):
		return watch.Target{}, fmt.Errorf("%q is not TYPE/NAME", spec.Resource)
	case named && spec.Selector != "":
		return watch.Target{}, errors.New("name and selector exclude each other")
	case !named && spec.Selector == "":
		return watch.Target{}, runner.WithHint(fmt.Errorf("%q names no object", spec.Resource), "write TYPE/NAME, or add a selector")
	}
	if _, err := labels.Parse(spec.Selector); err != nil {
		return watch.Target{}, fmt.Errorf("selector %q: %w", spec.Selector, err)
	}
	return watch.Target{Type: kind, Name: name, Selector: spec.Selector, Namespace: cmp.Or(spec.Namespace, namespace)}, nil
}

// Run waits for the objects.
func (a *Action) Run(ctx context.Context, s *cluster.Session, reporter runner.Reporter) error {
	first, last := true, watch.Reading{}
	judge := func(_ watch.Target, u *unstructured.Unstructured) watch.Reading { return a.judge(u) }
	if a.condition.Type == plan.ConditionReady {
		judge = watch.Judge(ctx, s)
	}
	err := watch.Until(ctx, s, watch.Wait{
		Targets:  []watch.Target{a.target},
		For:      a.purpose(),
		Deletion: a.condition.Type == plan.ConditionDelete,
		Patient:  !wantsGood(a.condition),
		Judge:    judge,
		Changed: func(c watch.Change) {
			if c.Reading.State == watch.Waiting {
				first = false
			}
			last = c.Reading
			reporter.Report(runner.Report{
				Type: runner.TypeProgress, Object: c.Target.Object(), Done: c.Ready, Total: c.Total,
				Message: c.Target.String() + ": " + c.Reading.Reason,
			})
		},
		Notice: func(message string) { reporter.Report(runner.Report{Type: runner.TypeLog, Message: message}) },
	})
	if err != nil {
		return err
	}
	reporter.Report(runner.Report{
		Type: runner.TypeResult, Object: a.target.Object(), Message: a.target.String() + ": " + last.Reason, Unchanged: first,
	})
	return nil
}

// wantsGood reports whether a condition comes when its object gets on, and not when it fails.
func wantsGood(c plan.Condition) bool {
	bad := []string{"failed", "failuretarget", "replicafailure", "stalled", "disruptiontarget"}
	return c.Type == plan.ConditionReady || c.Type == plan.ConditionStatus && strings.EqualFold(c.Value, "true") && !slices.Contains(bad, strings.ToLower(c.Name))
}

// purpose completes "timed out waiting for".
func (a *Action) purpose() string {
	switch a.condition.Type {
	case plan.ConditionCreate:
		return a.target.String() + " to exist"
	case plan.ConditionDelete:
		return a.target.String() + " to be deleted"
	case plan.ConditionReady:
		return a.target.String() + " to be ready"
	case plan.ConditionStatus, plan.ConditionJSONPath:
	}
	return a.target.String() + " to have " + a.condition.String()
}

// judgeOf makes the judge of a condition. Judges look at nothing but the object.
func judgeOf(c plan.Condition) (func(*unstructured.Unstructured) watch.Reading, error) {
	switch c.Type {
	case plan.ConditionCreate:
		return present(func(*unstructured.Unstructured) watch.Reading { return met("exists") }), nil
	case plan.ConditionDelete:
		return deleted, nil
	case plan.ConditionReady: // by the rules of a session, see Run
		return watch.Ready, nil
	case plan.ConditionStatus:
		return present(func(u *unstructured.Unstructured) watch.Reading { return conditionMet(u, c.Name, c.Value) }), nil
	case plan.ConditionJSONPath:
		return jsonPathJudge(c)
	}
	return nil, fmt.Errorf("%q is not understood", c.Type)
}

func met(reason string) watch.Reading { return watch.Reading{State: watch.Reached, Reason: reason} }

func unmet(reason string) watch.Reading { return watch.Reading{State: watch.Waiting, Reason: reason} }

func present(judge func(*unstructured.Unstructured) watch.Reading) func(*unstructured.Unstructured) watch.Reading {
	return func(u *unstructured.Unstructured) watch.Reading {
		if u == nil {
			return unmet("not found")
		}
		return judge(u)
	}
}

func deleted(u *unstructured.Unstructured) watch.Reading {
	switch {
	case u == nil:
		return met("is gone")
	case u.GetDeletionTimestamp() == nil:
		return unmet("still exists, nobody has asked to delete it")
	case len(u.GetFinalizers()) > 0:
		return unmet("being deleted, finalizers: " + strings.Join(u.GetFinalizers(), ", "))
	}
	return unmet("being deleted")
}

// conditionMet looks at status.conditions as kubectl does (pkg/cmd/wait/condition.go):
// names and values without regard to case, and a condition that was observed
// on an older generation does not count.
func conditionMet(u *unstructured.Unstructured, name, value string) watch.Reading {
	raw, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	list, _ := raw.([]any)
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string { s, _ := c[key].(string); return s }
		if !strings.EqualFold(text("type"), name) || text("status") == "" {
			continue
		}
		if observed, ok := observedGeneration(u, c); ok && observed < u.GetGeneration() {
			return unmet(fmt.Sprintf("%s is of generation %d, the object is at %d", text("type"), observed, u.GetGeneration()))
		}
		reading := text("type") + " is " + text("status")
		if why := strings.TrimSpace(text("reason") + " " + text("message")); why != "" {
			reading += ": " + why
		}
		if strings.EqualFold(text("status"), value) {
			return met(reading)
		}
		return hopeless(u, unmet(reading))
	}
	if len(list) == 0 {
		return unmet("has no conditions yet")
	}
	return hopeless(u, unmet("has no condition "+name+" yet"))
}

// hopeless makes a failure of what is unmet when the object has failed for
// good: a Job that failed will never be complete.
func hopeless(u *unstructured.Unstructured, reading watch.Reading) watch.Reading {
	if r := watch.Ready(u); r.State == watch.Failed && !r.Recoverable {
		return r
	}
	return reading
}

func observedGeneration(u *unstructured.Unstructured, condition map[string]any) (int64, bool) {
	if n, ok, err := unstructured.NestedInt64(condition, "observedGeneration"); ok && err == nil {
		return n, true
	}
	n, ok, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return n, ok && err == nil
}

// gives reports whether there is any value, and not null alone.
func gives(results [][]reflect.Value) bool {
	for _, list := range results {
		for _, v := range list {
			if v.IsValid() && v.CanInterface() && v.Interface() != nil {
				return true
			}
		}
	}
	return false
}

// jsonPathJudge compares what a path gives, as text. A path without a value
// has to give something; an empty text is something, as for kubectl.
func jsonPathJudge(c plan.Condition) (func(*unstructured.Unstructured) watch.Reading, error) {
	path := jsonpath.New("wait").AllowMissingKeys(true)
	if err := path.Parse(c.Path); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Path, err)
	}
	return present(func(u *unstructured.Unstructured) watch.Reading {
		results, err := path.FindResults(u.UnstructuredContent())
		if err != nil {
			return unmet(c.Path + " cannot be evaluated yet: " + err.Error())
		}
		if !gives(results) {
			return unmet(c.Path + " gives nothing yet")
		}
		var text bytes.Buffer
		for _, r := range results {
			if err := path.PrintResults(&text, r); err != nil {
				return unmet(c.Path + " cannot be read: " + err.Error())
			}
		}
		secret := u.GetKind() == "Secret" && u.GroupVersionKind().Group == ""
		reading := c.Path + " is " + text.String()
		if secret {
			reading = c.Path + " is set"
		}
		switch {
		case c.Value == "", strings.TrimSpace(text.String()) == strings.TrimSpace(c.Value):
			return met(reading)
		case secret:
			return unmet(c.Path + " has another value")
		}
		return unmet(reading)
	}), nil
}
