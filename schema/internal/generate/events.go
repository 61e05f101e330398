package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kplan-dev/kplan/runner"
)

// eventSchema is the schema of an event.
func eventSchema(from sources) (*node, error) {
	c, err := readComments(from.runner)
	if err != nil {
		return nil, err
	}
	ofPlan, err := readComments(from.plan)
	if err != nil {
		return nil, err
	}
	c.values["NeedOn"] = ofPlan.values["NeedOn"]
	return schemaOfEvents(c, reflect.TypeFor[runner.Event](), "kplan event", fieldsOf, eventFields)
}

// schemaOfEvents is the schema of a type of events, of which each kind has some fields in any
// case.
func schemaOfEvents(c *comments, t reflect.Type, title string, has map[string][]string, ofFields map[string]func(*node)) (*node, error) {
	for _, v := range c.values["Type"] {
		if _, known := has[v.text]; !known {
			return nil, fmt.Errorf("it is not said which fields an event of type %q has", v.text)
		}
	}
	g := generator{
		comments: c, plain: noExpressions, open: true,
		ofTypes: map[string]func(*node){"Event": byType(has)}, ofFields: ofFields, used: map[string]bool{},
	}
	root, err := g.object(t)
	if err != nil {
		return nil, err
	}
	root.Title = title
	root.Description += " Readers pass over fields and types that they do not know: within a version more may come."
	return g.finish(root)
}

// noExpressions is for types whose fields are no expressions.
func noExpressions(reflect.Type) bool { return true }

// fieldsOf are the fields that events of a type have in any case, beside those of
// all events.
var fieldsOf = map[string][]string{
	"plan":     {"version", "plan", "steps"},
	"state":    {"step", "state"},
	"progress": {"step"},
	"held":     {"step", "webhook"},
	"released": {"step", "webhook"},
	"webhook":  {"step", "webhook"},
	"guards":   {"guards"},
	"hook":     {"step", "object", "hook"},
	"finding":  {"message", "finding"},
	"fetch":    {"message", "done", "total"},
	"log":      {"step"},
	"result":   {"step"},
	"outputs":  {"step", "outputs"},
	"cancel":   {"error"},
	"order":    {"message"},
	"paused":   nil,
	"done":     {"state"},
}

// byType wants the fields of each type of event.
func byType(has map[string][]string) func(*node) {
	return func(n *node) {
		for _, name := range slices.Sorted(maps.Keys(has)) {
			if fields := has[name]; len(fields) > 0 {
				n.AllOf = append(n.AllOf, &node{
					If:   &node{Properties: properties{{"type", &node{Const: name}}}},
					Then: &node{Required: fields},
				})
			}
		}
	}
}

// eventFields say what holds for fields of events beyond their types.
var eventFields = map[string]func(*node){
	"Event.seq":     atLeast(1),
	"Event.attempt": atLeast(1),
	"StepInfo.line": atLeast(1),
}

func atLeast(low float64) func(*node) {
	return func(n *node) { n.Minimum = &low }
}
