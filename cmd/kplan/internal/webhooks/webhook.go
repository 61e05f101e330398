// Package webhooks shows the webhooks of a cluster: as a table for people, or
// in a form for programs.
//
// It reads nothing from the cluster and decides nothing: package survey does.
package webhooks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Webhook is how one webhook stands, in the form for programs: its JSON is
// documented in docs/reference/webhooks.md.
type Webhook struct {
	Configuration string            `json:"configuration"`
	Name          string            `json:"name"`
	Kind          webhook.Kind      `json:"kind"`
	Labels        map[string]string `json:"labels,omitempty"`
	Owner         webhook.Owner     `json:"owner,omitzero"`
	// Guards are the rules, one text for each resource of each rule.
	Guards []string `json:"guards"`
	// Policy is empty for a conversion webhook, without which nothing works.
	Policy         string  `json:"failure_policy,omitempty"`
	SideEffects    string  `json:"side_effects,omitempty"`
	Timeout        float64 `json:"timeout_seconds"`
	Service        service `json:"service,omitzero"`
	URL            string  `json:"url,omitempty"`
	NamespaceMatch string  `json:"namespace_selector,omitempty"`
	ObjectMatch    string  `json:"object_selector,omitempty"`
	Conditions     []match `json:"match_conditions,omitempty"`
	// Callable says that nothing that was read stands in the way of a call.
	Callable bool `json:"callable"`
	// Lowest is the lowest rung that was not reached, or else of which nothing
	// is known.
	Lowest webhook.Reading `json:"lowest,omitzero"`
	// Explanation says the reason of Lowest in words that take no knowledge of
	// Kubernetes.
	Explanation string         `json:"explanation,omitempty"`
	Ladder      webhook.Ladder `json:"ladder"`
}

type service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Port      int32  `json:"port"`
}

type match struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// Of makes the forms of standings, the lowest-standing ones first.
func Of(standings []survey.Status) []Webhook {
	all := make([]Webhook, 0, len(standings))
	for _, s := range standings {
		all = append(all, of(s))
	}
	slices.SortStableFunc(all, func(a, b Webhook) int {
		return cmp.Or(cmp.Compare(a.height(), b.height()), strings.Compare(a.ID(), b.ID()))
	})
	return all
}

func of(s survey.Status) Webhook {
	w := Webhook{
		Configuration: s.Configuration, Name: s.Name, Kind: s.Kind, Labels: s.Labels, Owner: s.Owner,
		Guards: guards(s.Entry), Policy: string(s.FailurePolicy), SideEffects: string(s.SideEffects),
		Timeout: s.Timeout.Seconds(), Callable: s.Ladder.Callable(), Ladder: s.Ladder,
		NamespaceMatch: selector(s.NamespaceSelector), ObjectMatch: selector(s.ObjectSelector),
	}
	if ref := s.Client.Service; ref != nil {
		w.Service = service{ref.Namespace, ref.Name, s.Port()}
	} else if s.Client.URL != nil {
		w.URL = *s.Client.URL
	}
	for _, c := range s.MatchConditions {
		w.Conditions = append(w.Conditions, match{c.Name, c.Expression})
	}
	var found bool
	if w.Lowest, found = s.Ladder.Missing(); !found {
		w.Lowest, _ = s.Ladder.Unknown()
	}
	w.Explanation = w.Lowest.Explain()
	return w
}

// ID is configuration/name; a conversion webhook has no name of its own.
func (w Webhook) ID() string {
	if w.Kind == webhook.Conversion {
		return w.Configuration
	}
	return w.Configuration + "/" + w.Name
}

// among is the ID, with the kind where another one of all has it too.
func (w Webhook) among(all []Webhook) string {
	if slices.ContainsFunc(all, func(o Webhook) bool { return o.ID() == w.ID() && o.Kind != w.Kind }) {
		return fmt.Sprintf("%s (%s)", w.ID(), w.Kind)
	}
	return w.ID()
}

// Failing reports whether a rung is known not to be reached.
func (w Webhook) Failing() bool {
	_, missing := w.Ladder.Missing()
	return missing
}

// blind reports whether a rung could not be read that a call would not show.
func (w Webhook) blind() bool {
	return !w.Failing() && w.Lowest.Rung != "" && w.Lowest.Rung != webhook.Serving && w.Lowest.Rung != webhook.Admitting
}

// height orders webhooks: those that miss a rung by it, then those of which
// something is not known, then the others.
func (w Webhook) height() int {
	switch {
	case w.Failing():
		return slices.Index(webhook.Rungs, w.Lowest.Rung)
	case w.blind():
		return len(webhook.Rungs)
	}
	return len(webhook.Rungs) + 1
}

// since is since when the webhook stands as it does, zero when nobody knows.
func (w Webhook) since() time.Time {
	if w.Failing() || w.blind() {
		return w.Lowest.Since
	}
	var last time.Time
	for _, r := range w.Ladder {
		if r.Since.After(last) {
			last = r.Since
		}
	}
	return last
}

// called is where the webhook is called, for people.
func (w Webhook) called() string {
	switch {
	case w.URL != "":
		return w.URL
	case w.Service.Port == 443:
		return w.Service.Namespace + "/" + w.Service.Name
	}
	return fmt.Sprintf("%s/%s:%d", w.Service.Namespace, w.Service.Name, w.Service.Port)
}

// guards are the rules for people, e.g. "create,update widgets.example.io".
func guards(e webhook.Entry) []string {
	if e.Kind == webhook.Conversion {
		return []string{"convert " + e.Converts.String()}
	}
	texts := []string{}
	for _, r := range e.Rules {
		var verbs []string
		for _, o := range r.Operations {
			verbs = append(verbs, strings.ToLower(string(o)))
		}
		if slices.Contains(r.Operations, admissionv1.OperationAll) {
			verbs = []string{"*"}
		}
		for _, resource := range r.Resources {
			for _, group := range r.APIGroups {
				name, sub, is := strings.Cut(resource, "/")
				text := strings.Join(verbs, ",") + " " + schema.GroupResource{Group: group, Resource: name}.String()
				if is {
					text += "/" + sub
				}
				if !slices.Contains(texts, text) {
					texts = append(texts, text)
				}
			}
		}
	}
	return texts
}

func selector(s *metav1.LabelSelector) string {
	if s == nil || (len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0) {
		return ""
	}
	return metav1.FormatLabelSelector(s)
}
