// Package explain says what a raw error means: what failed, which class of failure it
// is, what the causes can be, the likeliest first, and which command shows more. It knows
// the errors of API servers, webhooks, Helm, kubelet and registries, as clients,
// controllers and logs print them.
//
// All of it are pure functions of a text: no cluster is asked, and the same text has the
// same explanations. Of the text only names and reasons are repeated, without what looks
// like a secret. It does not explain what programs in pods say in words of their own.
package explain

import (
	"slices"

	"github.com/kplan-dev/kplan/webhook"
)

// Class says what an error means for whoever met it.
type Class string

// The classes. The first four are those of webhook faults.
const (
	// Race: something is not up yet; the same request passes later.
	Race Class = "race"
	// Misconfigured: something is set up wrongly.
	Misconfigured Class = "misconfigured"
	// Overloaded: something has more to do than it can.
	Overloaded Class = "overloaded"
	// Denied: a webhook or a policy has judged the object, and says no.
	Denied Class = "denied"
	// Missing: something that is named does not exist.
	Missing Class = "missing"
	// Conflict: it belongs to somebody else, or somebody else works on it.
	Conflict Class = "conflict"
	// Forbidden: the user may not do it, or is not known.
	Forbidden Class = "forbidden"
	// Invalid: the object, the chart or its values are wrong.
	Invalid Class = "invalid"
	// Exhausted: there is no room left for it.
	Exhausted Class = "exhausted"
	// Failed: something that was run, such as a Job, ended with an error.
	Failed Class = "failed"
	// Timeout: it took longer than it was given, and the error does not say why.
	Timeout Class = "timeout"
	// Unavailable: the API server, or another server, cannot be reached.
	Unavailable Class = "unavailable"
	// Deleting: something is being deleted, and stands in the way until it is gone.
	Deleting Class = "deleting"
)

// Classes are all classes.
var Classes = []Class{
	Race, Misconfigured, Overloaded, Denied, Missing, Conflict, Forbidden, Invalid, Exhausted, Failed, Timeout, Unavailable, Deleting,
}

// Again says what comes of doing the same once more.
func (c Class) Again() string {
	switch c {
	case Race:
		return "the same passes later, when what it waits for is up"
	case Overloaded, Unavailable:
		return "the same may pass later; look first whether it was done"
	case Denied:
		return "the same is denied again: change the object, or the policy"
	case Timeout, Failed:
		return "the same fails again until its cause is found"
	case Deleting:
		return "the same passes when the deletion has ended"
	default:
		return "the same fails again until somebody changes something"
	}
}

// Explanation is what one error of a text means.
type Explanation struct {
	// Rule names the kind of error. It never changes.
	Rule  string `json:"rule"`
	Class Class  `json:"class"`
	// What says what failed, in one clause.
	What string `json:"what"`
	// Reason is why, in the words of the text; it may be empty.
	Reason string `json:"reason,omitempty"`
	// Words says what Reason means, in words that take no knowledge of Kubernetes.
	Words string `json:"words,omitempty"`
	// About are the objects that the error names. A webhook's Kind is Webhook, that of a
	// Helm release Release; a CRD is named by kind and group when its own name is not told.
	About []webhook.Object `json:"about,omitempty"`
	// Again says what comes of doing the same once more.
	Again string `json:"again"`
	// Causes are what can have led to it, the likeliest first.
	Causes []string `json:"causes"`
	// Next are commands that show more, or help. Words in capitals are to be filled in.
	Next []string `json:"next"`
	// Fault is what the error says about a webhook; nil when it is not about one.
	Fault *webhook.Fault `json:"-"`

	// general: the error says less than any other one, such as that time ran out.
	general bool
}

// most bounds how many errors of a text are explained: the last ones.
const most = 10

// Text explains the errors of a text in their order, each kind of error of one object
// once; none when nothing in the text is known. Of a log the last errors count.
func Text(text string) []Explanation {
	var all []Explanation
	for _, p := range pieces(text) {
		all = append(all, explainPiece(p)...)
	}
	special := slices.ContainsFunc(all, func(e Explanation) bool { return !e.general })
	all = slices.DeleteFunc(all, func(e Explanation) bool { return special && e.general })
	all = distinct(all)
	return all[max(0, len(all)-most):]
}

// distinct leaves out what is explained already.
func distinct(all []Explanation) []Explanation {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(e Explanation) bool {
		key := e.Rule + "\n" + e.What
		defer func() { seen[key] = true }()
		return seen[key]
	})
}
