package runner

import (
	"encoding/json"
	"fmt"
	"slices"
)

// redacted returns e with hide applied to all of its texts but the names of steps.
// What e points to is not changed: the action that reported it may still use it.
func (e Event) redacted(hide func(string) string) Event {
	for _, text := range []*string{&e.Plan, &e.Message, &e.Error, &e.Hint, &e.Object, &e.Of} {
		*text = hide(*text)
	}
	if e.Webhook != nil {
		w := *e.Webhook
		for _, text := range []*string{&w.Name, &w.Service, &w.Cause, &w.Explanation, &w.Configuration, &w.Owner} {
			*text = hide(*text)
		}
		e.Webhook = &w
	}
	if e.Hook != nil {
		h := *e.Hook
		h.Event = hide(h.Event)
		e.Hook = &h
	}
	if e.Finding != nil {
		f := *e.Finding
		f.Evidence = slices.Clone(f.Evidence)
		for i := range f.Evidence {
			f.Evidence[i].Object, f.Evidence[i].Value = hide(f.Evidence[i].Object), hide(f.Evidence[i].Value)
		}
		e.Finding = &f
	}
	if e.Release != nil {
		e.Release = &Release{Namespace: hide(e.Release.Namespace), Name: hide(e.Release.Name)}
	}
	e.Objects = slices.Clone(e.Objects)
	for i := range e.Objects {
		o := &e.Objects[i]
		o.Namespace, o.Name = hide(o.Namespace), hide(o.Name)
	}
	if e.Outputs != nil {
		outputs := make(map[string]any, len(e.Outputs))
		for name, v := range e.Outputs { // the names are the plan's
			outputs[name] = hideValue(hide, v)
		}
		e.Outputs = outputs
	}
	e.Guards = slices.Clone(e.Guards)
	for i, g := range e.Guards {
		names := slices.Clone(g.Webhooks)
		for j, name := range names {
			names[j] = hide(name)
		}
		e.Guards[i].Webhooks = names
	}
	return e
}

// hideValue hides texts in a value as JSON decodes it, and what is none but
// looks like one that must be hidden.
func hideValue(hide func(string) string, v any) any {
	switch v := v.(type) {
	case string:
		return hide(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[hide(k)] = hideValue(hide, x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = hideValue(hide, x)
		}
		return out
	case nil, bool:
		return v
	}
	text := fmt.Sprint(v)
	if hidden := hide(text); hidden != text {
		return hidden
	}
	return v
}

// shown returns outputs as they may be shown: as JSON decodes them, so that a
// recorded event is the same, and without the sensitive ones.
func shown(outputs map[string]any, sensitive []string) map[string]any {
	out := make(map[string]any, len(outputs))
	for name, v := range outputs {
		if slices.Contains(sensitive, name) {
			out[name] = HiddenOutput
			continue
		}
		var decoded any
		b, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(b, &decoded)
		}
		if err != nil {
			decoded = fmt.Sprintf("(cannot be shown: %v)", err)
		}
		out[name] = decoded
	}
	return out
}

// redactError returns err with its text and its hint redacted. Its chain stays.
func redactError(hide func(string) string, err error) error {
	if hide == nil {
		return err
	}
	h := &redactedError{error: err, text: hide(err.Error()), hint: hide(HintOf(err))}
	if h.text == err.Error() && h.hint == HintOf(err) {
		return err
	}
	return h
}

// redactedError is an error that says less than the one in its chain.
type redactedError struct {
	error
	text, hint string
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.error }

// Hint implements the interface that HintOf looks for.
func (e *redactedError) Hint() string { return e.hint }
