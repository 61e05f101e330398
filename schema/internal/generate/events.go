package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kplan-dev/kplan/runner"
)

// generateEvents gives the schema of a run's events, indented; the folders are
// those of packages runner and plan.
func generateEvents(runnerDir, planDir string) ([]byte, error) {
	return indent(eventSchema(runnerDir, planDir))
}

// eventSchema is the schema of an event.
func eventSchema(runnerDir, planDir string) (*node, error) {
	c, err := readComments(runnerDir)
	if err != nil {
		return nil, err
	}
	ofPlan, err := readComments(planDir)
	if err != nil {
		return nil, err
	}
	c.values["NeedOn"] = ofPlan.values["NeedOn"]
	for _, v := range c.values["Type"] {
		if _, known := fieldsOf[v.text]; !known {
			return nil, fmt.Errorf("it is not said which fields an event of type %q has", v.text)
		}
	}
	g := generator{
		comments: c, plain: func(reflect.Type) bool { return true }, open: true,
		ofTypes: map[string]func(*node){"Event": byType}, ofFields: eventFields, used: map[string]bool{},
	}
	root, err := g.object(reflect.TypeFor[runner.Event]())
	if err != nil {
		return nil, err
	}
	root.Title = "kplan event"
	root.Description += " Readers pass over fields and types that they do not know: within a version more may come."
	return g.finish(root)
}

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
func byType(n *node) {
	for _, name := range slices.Sorted(maps.Keys(fieldsOf)) {
		if fields := fieldsOf[name]; len(fields) > 0 {
			n.AllOf = append(n.AllOf, &node{
				If:   &node{Properties: properties{{"type", &node{Const: name}}}},
				Then: &node{Required: fields},
			})
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
