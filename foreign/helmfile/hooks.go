package helmfile

import (
	"slices"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan"
)

// hooks makes steps of those hooks that apply manifests, before or after the release. All
// others run programs, and are told of.
func (s *scope) hooks() {
	for _, hook := range s.v.Get("hooks").Items() {
		apply := hook.Get("kubectlApply")
		events := hook.Get("events").Texts()
		before := slices.Contains(events, "presync") || slices.Contains(events, "prepare")
		after := slices.Contains(events, "postsync")
		if !apply.IsMap() || before == after {
			hook.Lost("run it before or after kplan, or write it as a step with apply, wait or delete", "the hook %s runs %s, which kplan does not do", quoted(hook.Get("name").Peek()), quoted(hook.Get("command").Peek()))
			continue
		}
		hook.Get("name").Take()
		hook.Get("showlogs").Take()
		step := &foreign.Step{Kind: plan.KindApply, Cluster: s.step.Cluster, Tags: s.step.Tags, When: s.step.When}
		file, kustomize := s.text(apply.Get("filename")), s.text(apply.Get("kustomize"))
		switch {
		case file != "":
			step.Fields.Set("files", []string{s.path(file)})
		case kustomize != "":
			step.Fields.Set("kustomize", s.path(kustomize))
		default:
			apply.Lost("", "the hook applies nothing")
			continue
		}
		step.Fields.Set("namespace", s.release.namespace)
		if before {
			s.plan.Add(step, "before-"+s.release.name)
			s.release.first.Need(step, "")
			s.release.first = step
		} else {
			s.plan.Add(step, "after-"+s.release.name)
			step.Need(s.release.last, "")
			s.release.last = step
		}
	}
}

// quoted is a name in a message.
func quoted(name string) string {
	if name == "" {
		return "without a name"
	}
	return `"` + name + `"`
}
