package explain

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/internal/scrub"
	"github.com/kplan-dev/kplan/webhook"
)

// rule knows one kind of error by its text.
type rule struct {
	id    string
	class Class
	// has are texts, lower case, one of which is in each error of the rule. They are looked
	// for before pattern, which takes longer.
	has []string
	// pattern is the error; nil: has is enough. Its groups are the names in templates, a
	// number behind a name apart; the group reason is Explanation.Reason.
	pattern *regexp.Regexp
	// only tells of names whether the rule is meant; nil: it is.
	only func(names map[string]string) bool
	// what, about, causes and next are templates, see fill.
	what   string
	about  []webhook.Object
	causes []string
	next   []string
	// general: see Explanation.
	general bool
}

// match explains a piece by the rule.
func (r *rule) match(p, lower string, context map[string]string) (Explanation, bool) {
	if !slices.ContainsFunc(r.has, func(text string) bool { return strings.Contains(lower, text) }) {
		return Explanation{}, false
	}
	names, reason := maps.Clone(context), ""
	if r.pattern != nil {
		found := r.pattern.FindStringSubmatch(p)
		if found == nil {
			return Explanation{}, false
		}
		for i, group := range r.pattern.SubexpNames() {
			switch group = strings.TrimRight(group, "0123456789"); {
			case group == "" || found[i] == "":
			case group == "reason":
				reason = quote(found[i])
			case safe(found[i]):
				names[group] = found[i]
			}
		}
	}
	if r.only != nil && !r.only(names) {
		return Explanation{}, false
	}
	return r.explain(names, reason), true
}

// explain fills in the rule's templates.
func (r *rule) explain(names map[string]string, reason string) Explanation {
	e := Explanation{Rule: r.id, Class: r.class, What: fill(r.what, names), Reason: reason, Again: r.class.Again(), general: r.general}
	e.Words = webhook.Explain(reason)
	for _, o := range r.about {
		name, known := names[strings.Trim(o.Name, "{}")]
		if !known && strings.HasPrefix(o.Name, "{") {
			continue
		}
		if !known {
			name = o.Name
		}
		e.About = append(e.About, webhook.Object{Kind: fill(o.Kind, names), Namespace: names[strings.Trim(o.Namespace, "{}")], Name: name})
	}
	for _, c := range r.causes {
		e.Causes = append(e.Causes, fill(c, names))
	}
	for _, n := range r.next {
		e.Next = append(e.Next, fill(n, names))
	}
	return e
}

var (
	optional    = regexp.MustCompile(`\[[^\[\]]*\]`)
	placeholder = regexp.MustCompile(`\{[a-z]+\}`)
)

// fill puts names into a template, in the place of {name}. What is between [ and ] is left
// out when a name in it is not known; elsewhere that name is written in capitals.
func fill(template string, names map[string]string) string {
	template = optional.ReplaceAllStringFunc(template, func(part string) string {
		for _, p := range placeholder.FindAllString(part, -1) {
			if names[strings.Trim(p, "{}")] == "" {
				return ""
			}
		}
		return part[1 : len(part)-1]
	})
	return placeholder.ReplaceAllStringFunc(template, func(p string) string {
		p = strings.Trim(p, "{}")
		if v := names[p]; v != "" {
			return v
		}
		return strings.ToUpper(p)
	})
}

// plain are names that a shell takes as they are, and that are no flags.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)

// safe reports whether a name of the text can be repeated, also in a command.
func safe(name string) bool {
	return len(name) <= 253 && plain.MatchString(name) && scrub.Text(name) == name
}

// rules are all rules, in the order in which they are tried: what a text says most
// exactly comes first. Faults of webhooks stand between early and late ones.
var (
	early = slices.Concat([]rule{noDryRun}, removedKinds)
	late  = slices.Concat(policies, access, hooks, charts, releases, kinds, deletions, conflicts, pods, servers, general)
)

// explainPiece explains one error. A text that joins several which no line parts has more.
func explainPiece(p string) []Explanation {
	whole := explainOne(p)
	if len(whole) > 0 && !whole[0].general {
		return whole
	}
	for _, split := range []func(string) []string{
		func(s string) []string { return original.Split(s, 2) },
		func(s string) []string { return strings.Split(s, "; ") },
		inBrackets,
	} {
		var all []Explanation
		if parts := split(p); len(parts) > 1 {
			for _, part := range parts {
				all = append(all, explainOne(part)...)
			}
		}
		if slices.ContainsFunc(all, func(e Explanation) bool { return whole == nil || !e.general }) {
			return all
		}
	}
	return whole
}

// original parts what failed when Helm took an install back from why it did.
var original = regexp.MustCompile(`original (?:install|upgrade|rollback) error: `)

// inBrackets are the errors of an Aggregate of k8s.io/apimachinery: [a, b].
func inBrackets(p string) []string {
	_, inner, _ := strings.Cut(p, "[")
	end := strings.LastIndex(inner, "]")
	if end < 0 {
		return nil
	}
	return strings.Split(inner[:end], ", ")
}

func explainOne(p string) []Explanation {
	lower, context := strings.ToLower(p), contextOf(p)
	for _, r := range early {
		if e, ok := r.match(p, lower, context); ok {
			return []Explanation{e}
		}
	}
	if all := explainFaults(p, context); all != nil {
		return all
	}
	for i := range late {
		if e, ok := late[i].match(p, lower, context); ok {
			return []Explanation{e}
		}
	}
	return nil
}

var (
	releaseText = regexp.MustCompile(`\b(?:[Rr]elease "?|(?:Upgrade|Install) ")((?:[a-z0-9.-]+/)?[a-z0-9][a-z0-9.-]*)"? (?:failed|with chart)\b`)
	hookText    = regexp.MustCompile(`\b((?:pre|post)-(?:install|upgrade|rollback|delete))(?: hooks failed|: |\S* failed)`)
)

// contextOf are the names that stand around any error: Helm's release, and the event of
// the hook that was run.
func contextOf(p string) map[string]string {
	names := map[string]string{}
	if m := releaseText.FindStringSubmatch(p); m != nil {
		namespace, release, ok := strings.Cut(m[1], "/")
		if !ok {
			namespace, release = "", m[1]
		}
		for k, v := range map[string]string{"namespace": namespace, "release": release} {
			if v != "" && safe(v) {
				names[k] = v
			}
		}
	}
	if m := hookText.FindStringSubmatch(p); m != nil {
		names["hook"] = m[1]
	}
	return names
}
