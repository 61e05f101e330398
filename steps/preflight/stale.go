package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// webhooks looks for webhooks that fail what the plan writes and that cannot be called,
// unless the plan itself brings what they need. Where nobody is about to answer for one, a
// request would be held until its bound.
func (o *one) webhooks(ctx context.Context) {
	p := o.prediction(ctx)
	// The survey asks this about each webhook at every change.
	concerned := remembered(func(e webhook.Entry) bool {
		return e.FailurePolicy == admissionv1.Fail && slices.ContainsFunc(p.writes, func(w write) bool { return ctx.Err() == nil && p.meets(ctx, e, w) != match.Skips })
	})
	statuses, ok := statusesOf(ctx, o.session.Cluster.Survey, concerned)
	if !ok {
		o.miss(ctx, "which webhooks cannot be called")
		return
	}
	var hidden []string
	for _, st := range statuses {
		if st.Backing != nil && len(st.Backing.Unread) > 0 {
			hidden = append(hidden, fmt.Sprintf("%q", st.Name))
			continue
		}
		if r, missing := lacks(st.Ladder); missing && !o.brings(st) {
			o.blocked(ctx, p, st, r)
		}
	}
	if len(hidden) > 0 {
		o.find(finding.Finding{
			Rule: Unchecked, Severity: finding.Note, Message: "you may not see what is behind webhooks that judge what is written: " + some(hidden),
		})
	}
}

// remembered asks about each webhook once. It is safe for concurrent use.
func remembered(ask func(webhook.Entry) bool) func(webhook.Entry) bool {
	type key struct {
		kind                webhook.Kind
		configuration, name string
	}
	var (
		mu    sync.Mutex
		known = map[key]bool{}
	)
	return func(e webhook.Entry) bool {
		mu.Lock()
		defer mu.Unlock()
		k := key{e.Kind, e.Configuration, e.Name}
		is, asked := known[k]
		if !asked {
			is = ask(e)
			known[k] = is
		}
		return is
	}
}

// lacks is what keeps a webhook from being called: that nobody is behind it, or else that it
// is not trusted.
func lacks(l webhook.Ladder) (webhook.Reading, bool) {
	for _, rung := range []webhook.Rung{webhook.Routed, webhook.Backed} {
		if r, has := l.At(rung); has && (r.State == webhook.Waiting || r.State == webhook.Failed) {
			return r, true
		}
	}
	r, missing := l.Missing()
	return r, missing && !l.Callable()
}

// statusesOf reads how some webhooks stand. It is not ok when ctx ends before that is known.
func statusesOf(ctx context.Context, view *survey.Survey, wants func(webhook.Entry) bool) (all []survey.Status, ok bool) {
	following, ok := synced(ctx, view, survey.Target{Match: wants})
	defer following.Close()
	if !ok {
		return nil, false
	}
	return following.Statuses(), true
}

// synced begins to follow webhooks, and waits until they were read. It is not ok when ctx
// ends before. The caller closes what follows.
func synced(ctx context.Context, view *survey.Survey, t survey.Target) (following *survey.Subscription, ok bool) {
	changed := make(chan struct{}, 1) // filled by the survey until it is closed
	following = view.Subscribe(t, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	for !following.Synced() {
		select {
		case <-ctx.Done():
			return following, false
		case <-changed:
		}
	}
	return following, true
}

// brings reports whether the plan brings what a webhook needs: itself, its Service, or the
// release that both belong to, or workloads that its Service selects. Then a hold is for
// that.
func (o *one) brings(st survey.Status) bool {
	for _, s := range o.steps {
		namespace := s.namespace
		switch {
		case s.Helm != nil && st.Owner.Release == cmp.Or(s.Helm.Namespace, namespace)+"/"+s.ReleaseName(),
			s.Delete != nil && s.Delete.Release != "" && st.Owner.Release == cmp.Or(s.Delete.Namespace, namespace)+"/"+s.Delete.Release:
			return true
		case s.Delete != nil && configurationOf(s.Delete.Resource) == st.Configuration:
			return true
		case s.Helm == nil && s.Apply == nil && s.Delete == nil:
			continue
		}
		for _, u := range s.bare() {
			if st.Source() == (webhook.Object{Kind: u.GetKind(), Name: u.GetName()}) {
				return true
			}
			if u.GetKind() == "Service" && st.Service() == u.GetNamespace()+"/"+u.GetName() {
				return true
			}
			if pod := podOf(u); pod != nil && st.Backing != nil && selects(st.Backing.Service, u.GetNamespace(), pod.template.Labels) {
				return true
			}
		}
	}
	return false
}

// configurationOf is the webhook configuration that TYPE/NAME names; "" for others.
func configurationOf(resource string) string {
	kind, name, _ := strings.Cut(resource, "/")
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	switch strings.TrimSuffix(kind, "s") {
	case "validatingwebhookconfiguration", "mutatingwebhookconfiguration":
		return name
	}
	return ""
}

// selects reports whether a Service has pods with labels behind it.
func selects(s *corev1.Service, namespace string, labels map[string]string) bool {
	if s == nil || s.Namespace != namespace || len(s.Spec.Selector) == 0 {
		return false
	}
	for key, value := range s.Spec.Selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// blocked tells of a webhook that cannot be called, at the first step that it concerns: as
// an error when an object is to be made that is certainly judged by it and nobody is about
// to answer.
func (o *one) blocked(ctx context.Context, p *prediction, st survey.Status, r webhook.Reading) {
	coming := o.coming(st)
	for _, s := range o.steps {
		var sure, maybe []string
		for _, w := range p.writes {
			if w.step != s {
				continue
			}
			made := w.object
			if w.by != nil {
				made = w.by
			}
			switch outcome := p.meets(ctx, st.Entry, w); {
			case outcome == match.Skips, outcome == match.Maybe && w.by != nil:
			case outcome == match.Calls && !o.exists(ctx, made):
				sure = append(sure, w.String())
			default:
				maybe = append(maybe, w.String())
			}
		}
		if len(sure)+len(maybe) > 0 {
			o.find(o.stale(s, st, r, sure, maybe, coming))
		}
	}
}

// coming says what may make the webhook answer soon without this plan; "" for nothing.
func (o *one) coming(st survey.Status) string {
	for _, s := range o.steps {
		if w := s.Webhook; w != nil && (w.Service != "" && w.Service == st.Service() || w.Configuration != "" && w.Configuration == st.Configuration) {
			return fmt.Sprintf("step %q waits for it", s.Name)
		}
	}
	return arriving(st)
}

// arriving says whether pods of a webhook are on their way; "" when none is.
func arriving(st survey.Status) string {
	if st.Backing == nil {
		return ""
	}
	for _, pod := range st.Backing.Pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			return "pod " + pod.Name + " is there"
		}
	}
	for _, w := range st.Backing.Workloads {
		if w.Replicas > 0 {
			return w.String() + " is to make pods"
		}
	}
	return ""
}

// stale is the finding of a webhook that cannot be called.
func (o *one) stale(s *known, st survey.Status, r webhook.Reading, sure, maybe []string, coming string) finding.Finding {
	judged, what := sure, "guards"
	if len(sure) == 0 {
		judged, what = maybe, "may guard"
	}
	f := Find(Webhook, s.Step, "", "", "name")
	f.Message = fmt.Sprintf("webhook %q of %s%s %s %s and cannot be called: %s", st.Name, st.Configuration, ownedBy(st.Entry), what, some(judged), r.Reason)
	f.Hint = "no step brings what it needs: start it again, or delete " + st.Source().String() + " if it was left behind"
	injected := r.Rung == webhook.Trusted && r.State == webhook.Waiting
	if r.Rung == webhook.Trusted {
		f.Hint = "see who gives it its CA: kplan webhooks " + st.Configuration
	}
	if len(sure) == 0 || coming != "" || injected {
		f.Severity = finding.Warning
	}
	if coming != "" {
		f.Hint = coming + ": requests are held until it answers"
	}
	f.Object = st.Source().String()
	f.Evidence = evidenceOf(st, r)
	return f
}

// ownedBy names whose a webhook is; "" when nobody knows.
func ownedBy(e webhook.Entry) string {
	if e.Owner.Release != "" {
		return " of Helm release " + e.Owner.Release
	}
	return ""
}

// evidenceOf is what was read of a webhook.
func evidenceOf(st survey.Status, r webhook.Reading) []finding.Evidence {
	all := []finding.Evidence{{Object: st.Source().String(), Field: "failurePolicy", Value: string(st.FailurePolicy)}}
	if st.Service() != "" {
		all = append(all, finding.Evidence{Object: st.Source().String(), Field: "clientConfig.service", Value: st.Service()})
	}
	return append(all, finding.Evidence{Object: r.Source.String(), Field: string(r.Rung), Value: r.Reason})
}
