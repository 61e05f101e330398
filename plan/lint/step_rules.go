package lint

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
)

// exact is a version that means one chart only; a leading v is of older charts.
var exact = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func checkPins(p *pass) {
	p.each(func(s *plan.Step) {
		// A chart or version that is not known yet stands in the file all the same.
		if s.Helm == nil || s.Helm.Chart == "" || s.Helm.IsLocal() || strings.Contains(s.Helm.Chart, "@sha256:") || p.locked(s.Helm.Repo, s.Helm.Chart, s.Helm.Version) {
			return
		}
		const hint = "write the version that was tested, such as 1.2.3"
		version, given := s.Helm.Version, hasExpression(s, "helm", "version")
		switch _, tag := s.Helm.OCITag(); {
		case version == "" && !given && exact.MatchString(strings.ReplaceAll(tag, "_", "+")):
		case exact.MatchString(version), version == "" && given:
		case version == "" && tag != "":
			p.add(finding.Warning, s, locationOf(s, "helm", "chart"), hint, "the tag %q is no exact version: each run installs what it means then", tag)
		case version == "":
			p.add(finding.Warning, s, locationOf(s, "helm", "chart"), hint, "the chart has no version: each run installs the newest one")
		default:
			p.add(finding.Warning, s, locationOf(s, "helm", "version"), hint, "the version %q is no exact one: each run installs the newest that it allows", version)
		}
	})
}

func checkManifestPins(p *pass) {
	p.each(func(s *plan.Step) {
		kind := string(s.Kind())
		check := func(name string, fields ...any) {
			a, err := plan.ParseAddress(name)
			if !plan.IsAddress(name) || err != nil || a.Pinned() || p.locked("", a.URL, "") {
				return
			}
			hint := "lock it with kplan lock, or add #sha256: and the digest of the file that was tested"
			if strings.HasPrefix(name, "oci://") {
				hint = "lock it with kplan lock, or add @sha256: and the digest of the artifact that was tested"
			}
			p.add(finding.Warning, s, locationOf(s, append([]any{kind}, fields...)...), hint, "each run takes what %q leads to then", a.URL)
		}
		switch {
		case s.Helm != nil:
			for i, name := range s.Helm.ValuesFiles {
				check(name, "values_files", i)
			}
		case s.Apply != nil:
			for i, name := range s.Apply.Files {
				check(name, "files", i)
			}
			check(s.Apply.Kustomize, "kustomize")
		case s.Delete != nil:
			for i, name := range s.Delete.Files {
				check(name, "files", i)
			}
			check(s.Delete.Kustomize, "kustomize")
		}
	})
}

func checkUnread(p *pass) {
	p.each(func(s *plan.Step) {
		if why := p.Unread[s.Name]; why != nil {
			what, at := "the chart", locationOf(s, "helm", "chart")
			if s.Helm == nil {
				what, at = "what the step sends", locationOf(s, string(s.Kind()))
			}
			p.add(finding.Warning, s, at, "", "%s cannot be looked at: %s", what, strings.Join(strings.Fields(why.Error()), " "))
		}
	})
}

// hasExpression reports whether the file of the step has an expression at a path: its value
// may be one that the run finds out.
func hasExpression(s *plan.Step, fields ...any) bool {
	return strings.Contains(raw(s, fields...), "${{")
}

func checkRetryUninstalls(p *pass) {
	p.each(func(s *plan.Step) {
		if s.Helm == nil {
			return
		}
		attempts := p.Plan.StepRetry(*s).InstallRetries
		if attempts <= 1 {
			return
		}
		const hint = "write on_failure: keep, so that the next attempt goes on from there, or install_retries: 1"
		at := locationOf(s, "helm", "on_failure")
		switch s.Helm.OnFailure {
		case plan.UninstallRelease:
			p.add(finding.Warning, s, at, hint, "of %d attempts each one uninstalls what it made before the next one begins", attempts)
		case plan.RollbackRelease:
			p.add(finding.Warning, s, at, hint, "of %d attempts each one of an upgrade is rolled back before the next one begins, and those of a first install are not", attempts)
		case plan.KeepRelease, "":
		}
	})
}

func checkUnguarded(p *pass) {
	var gates []*plan.Step
	p.each(func(s *plan.Step) {
		if s.Webhook != nil {
			gates = append(gates, s)
		}
	})
	for _, g := range p.Guards {
		s, by := p.steps[g.Step], p.steps[g.By]
		if g.Step == g.By || s == nil || by == nil || p.cluster(s) != p.cluster(by) || p.Plan.StepWebhooks(*s).Hold {
			continue
		}
		names := p.closed(g)
		if len(names) == 0 || p.gated(s, by, gates) {
			continue
		}
		severity, will := finding.Error, "will"
		if g.Maybe {
			severity, will = finding.Warning, "may"
		}
		at := locationOf(s, "name")
		if s.Webhooks != nil && s.Webhooks.Hold != nil {
			at = locationOf(s, "webhooks", "hold")
		}
		p.add(severity, s, at, fmt.Sprintf("remove hold: false, or put a step {webhook: {release: %s}} in between", cmp.Or(by.ReleaseName(), "NAME")),
			"%s that this step sends %s be judged by the %s of the step %q, and nothing waits until %s",
			count(g.Objects, "object"), will, webhooks(names), by.Name, either(names, "it answers", "they answer"))
	}
}

func checkOwnChart(p *pass) {
	told := map[string]bool{}
	for _, g := range p.Guards {
		s := p.steps[g.Step]
		if g.Step != g.By || s == nil || s.Helm == nil || told[g.Step] {
			continue
		}
		names := p.closed(g)
		if len(names) == 0 {
			continue
		}
		told[g.Step] = true
		severity, held := finding.Note, "nothing needs doing: kplan holds their requests; other tools fail"
		if !p.Plan.StepWebhooks(*s).Hold {
			severity, held = finding.Error, "nothing holds their requests: remove hold: false"
		}
		p.add(severity, s, locationOf(s, "helm", "chart"), held, "the chart brings the %s, which %s closed, and %s",
			webhooks(names), either(names, "fails", "fail"), p.judged(g, either(names, "it judges", "they judge")))
	}
}

// judged says how many objects a chart's own webhooks judge, and when. Two guards tell
// it: one of what comes after the webhooks, and one of what comes before them, which only
// a run that follows a failed one sends while they are there.
func (l *linter) judged(first Guard, judge string) string {
	const later = "on the run after a failed one"
	if first.Maybe {
		return fmt.Sprintf("%s that %s %s", count(first.Objects, "object"), judge, later)
	}
	more := 0
	for _, g := range l.Guards {
		if g.Step == first.Step && g.By == first.By && g.Maybe && len(l.closed(g)) > 0 {
			more += g.Objects
		}
	}
	text := fmt.Sprintf("%s that %s on a first install", count(first.Objects, "object"), judge)
	if more > 0 {
		text += fmt.Sprintf(", with %d more %s", more, later)
	}
	return text
}

// closed are the guard's webhooks that fail requests when they do not answer.
func (l *linter) closed(g Guard) []string {
	open := map[string]bool{}
	for _, o := range l.Objects[g.By] {
		if !o.configures() {
			continue
		}
		for _, w := range list(o.Fields, "webhooks") {
			if text(w, "failurePolicy") == "Ignore" {
				open[text(w, "name")] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(g.Webhooks), func(name string) bool { return open[name] })
}

// gated reports whether a webhook step that covers the webhooks of by comes between
// it and s.
func (l *linter) gated(s, by *plan.Step, gates []*plan.Step) bool {
	return slices.ContainsFunc(gates, func(gate *plan.Step) bool {
		return l.covers(*gate.Webhook, by) && l.graph.Follows(gate.Name, by.Name) && l.graph.Follows(s.Name, gate.Name)
	})
}

// covers reports whether a webhook step may be about webhooks that a step brings.
// What only the cluster knows is taken for granted.
func (l *linter) covers(w plan.Webhook, by *plan.Step) bool {
	switch {
	case w.Release != "":
		return w.Release == by.ReleaseName()
	case w.Configuration == "" && w.Service == "":
		return true // by files or by labels
	}
	return slices.ContainsFunc(l.Objects[by.Name], func(o Object) bool {
		return o.configures() && (w.Configuration != "" && o.name() == w.Configuration || slices.ContainsFunc(list(o.Fields, "webhooks"), func(hook any) bool {
			service := field(hook, "clientConfig", "service")
			return text(service, "namespace")+"/"+text(service, "name") == w.Service
		}))
	})
}

// configures reports whether the object is a configuration of webhooks.
func (o Object) configures() bool { return o.group() == "admissionregistration.k8s.io" }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// webhooks names them as part of a sentence.
func webhooks(names []string) string { return either(names, "webhook ", "webhooks ") + some(names) }

// either returns the word for one name or for several.
func either(names []string, one, several string) string {
	if len(names) == 1 {
		return one
	}
	return several
}

// some names up to three.
func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", len(names)-3)
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}
