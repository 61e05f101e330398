package export

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// step is a step that becomes an object: it knows which of its fields were taken, so that
// the others can be told of.
type step struct {
	*exporter
	plan.Step
	plan   *plan.Plan     // as the cluster has it
	fields map[string]any // as the plan has them
	// taken are the paths of fields that are in the export, or were told of, and all that is
	// below them. With whole all are.
	taken map[string]bool
	whole bool
}

// steps are those of a plan in an order that respects their needs.
func (x *exporter) steps(p *plan.Plan) ([]*step, error) {
	x.secrets = append(x.secrets, p.Sensitive)
	byName := map[string]plan.Step{}
	for _, s := range p.Steps {
		byName[s.Name] = s
	}
	var all []*step
	for _, name := range p.Graph().Order() {
		s := byName[name]
		if s.Skip != "" {
			x.changed(s.Locate(), "", "the step %s does not run, and is left out: %s", s.Name, s.Skip)
			continue
		}
		st, err := x.step(p, s)
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}

func (x *exporter) step(p *plan.Plan, s plan.Step) (*step, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", s.Name, err)
	}
	st := &step{exporter: x, Step: s, plan: p, taken: map[string]bool{}}
	if err := json.Unmarshal(b, &st.fields); err != nil {
		return nil, fmt.Errorf("step %s: %w", s.Name, err)
	}
	st.take("name", "description", "tags") // for people, and to pick steps by
	if s.Parallel > 0 {
		st.lost(st.at("for_each.parallel"), "", "step %s: %s does not bound how many of the steps of %s run at once", s.Name, x.target.Title, s.Group)
	}
	return st, nil
}

// take notes that fields are in the export, by their paths, such as helm.chart.
func (s *step) take(paths ...string) {
	for _, p := range paths {
		s.taken[p] = true
	}
}

// lose says of a field, if the step has it, that it is lost.
func (s *step) lose(path, hint, format string, args ...any) {
	if s.has(path) && !s.taken[path] {
		s.lost(s.at(path), hint, "step %s: "+format, append([]any{s.Name}, args...)...)
	}
	s.take(path)
}

// leave says that nothing stands for the step.
func (s *step) leave(hint, format string, args ...any) {
	s.lost(s.Locate(), hint, "step %s: "+format, append([]any{s.Name}, args...)...)
	s.whole = true
}

// has reports whether the step says something of a field.
func (s *step) has(path string) bool {
	first, rest, inner := strings.Cut(path, ".")
	v, is := s.fields[first]
	if inner {
		m, _ := v.(map[string]any)
		v, is = m[rest]
	}
	return is && v != nil && v != false && v != ""
}

// at is where a field stands in the plan.
func (s *step) at(path string) document.Place {
	var fields []any
	for f := range strings.SplitSeq(path, ".") {
		fields = append(fields, f)
	}
	return s.Locate(fields...)
}

// end tells of all fields that nobody took: of mappings, of each field in them.
func (s *step) end() {
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		inner, isMap := s.fields[name].(map[string]any)
		switch {
		case s.whole || s.taken[name]:
		case !isMap || name == "outputs":
			s.lose(name, "", "%s is left out: %s has nothing like it", name, s.target.Title)
		default:
			for _, field := range slices.Sorted(maps.Keys(inner)) {
				s.lose(name+"."+field, "", "%s.%s is left out: %s has nothing like it", name, field, s.target.Title)
			}
		}
	}
	for _, in := range s.Deferred() {
		s.lost(s.Locate(), "give it in another way, such as a Secret that exists before", "step %s: %s is known only when the plan runs, and what is made of it is left out", s.Name, in)
	}
}

// common tells what Flux and Argo CD lose of every step that they install something for.
func (s *step) common() {
	s.lost(s.Locate(), "", "step %s: %s holds no request for a webhook: %s", s.Name, s.target.Title, tooEarly[s.target.Name])
	s.lose("webhooks", "", "%s holds no request for a webhook", s.target.Title)
	if s.has("when") { // else it is known only when the plan runs, and told of with what it asks for
		s.changed(s.at("when"), "", "step %s: %s has no condition: it is true now, and the object is always there", s.Name, s.target.Title)
	}
	s.take("when")
	s.lose("outputs", "", "%s hands no values from one object to another", s.target.Title)
	s.lose("concurrency_group", "", "%s installs what depends on nothing side by side", s.target.Title)
	s.lose("fail_fast", "", "%s waits until the timeout for what cannot get on", s.target.Title)
	if s.Last {
		s.lost(s.Locate(), "", "step %s: %s has nothing that runs at the end whatever happened: it runs after what it needs", s.Name, s.target.Title)
	}
	for _, n := range s.Needs {
		if n.On != "" && n.On != plan.NeedSuccess {
			s.lost(s.at("needs"), "", "step %s: %s cannot wait for the step %s to end with %s", s.Name, s.target.Title, n.Step, n.On)
		}
	}
	if c := s.plan.StepCluster(s.Step); c != "" && (s.Rollout == nil || c != s.Rollout.Target) {
		s.lost(s.at("cluster"), elsewhere[s.target.Name], "step %s: it works on the cluster %s of the plan, and the object does not", s.Name, c)
	}
	s.take("cluster")
}

var (
	tooEarly = map[string]string{
		"flux":   "an object that comes too early fails, and all is tried again later",
		"argocd": "an object that comes too early fails the sync, which is tried again",
	}
	elsewhere = map[string]string{
		"flux":   "add spec.kubeConfig with that cluster's Secret",
		"argocd": "correct spec.destination",
	}
)

// retries says how the step is tried again, and tells what of that is lost: all but how often,
// how far apart and, if delays grow there, how fast.
func (s *step) retries(grow bool) plan.Retry {
	r := s.plan.StepRetry(s.Step)
	if r.InstallRetries > 1 {
		lose := func(what bool, name string) {
			if what {
				s.lost(s.atRetry(name), "", "step %s: %s of retry is left out: %s has nothing like it", s.Name, name, s.target.Title)
			}
		}
		lose(!grow && r.Multiplier > 1, "multiplier")
		lose(!grow && r.MaxDelaySeconds != plan.DefaultMaxDelaySeconds, "max_delay_seconds")
		lose(*r.Jitter > 0, "jitter")
		lose(len(r.On) > 0, "on")
	}
	s.take("retry")
	return r
}

// atRetry is where a field of retry stands: in the step, or in the defaults.
func (s *step) atRetry(field string) document.Place {
	if s.has("retry."+field) || s.plan.Defaults.Retry == nil {
		return s.at("retry." + field)
	}
	return s.inPlan("defaults", "retry", field)
}

// lostPlan tells what Flux and Argo CD lose of the plan as a whole.
func (x *exporter) lostPlan() {
	if x.Plan.Defaults.Webhooks != nil {
		x.lost(x.inPlan("defaults", "webhooks"), "", "%s holds no request for a webhook", x.target.Title)
	}
	if x.Plan.Defaults.FailFast != nil {
		x.lost(x.inPlan("defaults", "fail_fast"), "", "%s waits until the timeout for what cannot get on", x.target.Title)
	}
	if x.Plan.State.Namespace != "" {
		x.lost(x.inPlan("state"), "", "%s has its own record of what was installed: there are no lock and no records of runs", x.target.Title)
	}
}
