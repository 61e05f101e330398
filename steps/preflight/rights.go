package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/steps/rights"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// rights looks whether the user may do what the steps do.
func (o *one) rights(ctx context.Context) {
	rules, _ := rights.Of(o.needs(ctx))
	missing, err := Review(ctx, o.session.Clientset.AuthorizationV1(), rules)
	if err != nil {
		o.miss(ctx, "whether the user may do what the steps do on "+o.called(o.name))
		return
	}
	o.tellMissing(missing)
}

// needs is what the run does on the cluster.
func (o *one) needs(ctx context.Context) rights.Input {
	in := rights.Input{
		Plan: o.Plan.Metadata.Name, State: o.Plan.StateNamespace(), Records: o.HasHome && o.Plan.SameCluster(o.Home, o.name),
		Namespace: o.Conns[o.name].Namespace(),
	}
	var ask func(string) (*meta.RESTMapping, bool)
	if o.session != nil {
		ask = func(arg string) (*meta.RESTMapping, bool) {
			m, err := o.session.Cluster.MappingFor(ctx, arg)
			return m, err == nil
		}
	}
	in.Kinds = rights.KindsOf(o.kinds.of, o.kinds.objects, ask)
	for _, k := range o.steps {
		s := rights.Step{Step: k.Step, Namespace: k.namespace, Objects: k.bare()}
		if k.err != nil {
			s.Unread = k.err.Error()
		}
		in.Steps = append(in.Steps, s)
	}
	in.Reads = readsOf(o.Plan, o.name)
	in.Live = o.live(ctx)
	return in
}

// live are the webhooks that the cluster has, where a webhook step may mean them.
func (o *one) live(ctx context.Context) []webhook.Entry {
	asked := func(k *known) bool { return k.Webhook != nil }
	if o.session == nil || !slices.ContainsFunc(o.steps, asked) {
		return nil
	}
	view := o.session.Cluster.Survey
	conversions := slices.ContainsFunc(o.steps, func(k *known) bool { return asked(k) && k.Webhook.Configuration == "" })
	following, ok := synced(ctx, view, survey.Target{Match: func(webhook.Entry) bool { return false }, Conversions: conversions})
	defer following.Close()
	if !ok {
		o.miss(ctx, "which webhooks the webhook steps mean")
		return nil
	}
	return view.Entries()
}

// readsOf are the values that steps of any cluster want of one.
func readsOf(p *plan.Plan, name string) []plan.Input {
	var all []plan.Input
	seen := map[plan.Input]bool{}
	add := func(in plan.Input, cluster string) {
		if in.Key.Name != "" && p.SameCluster(cluster, name) && !seen[in] {
			seen[in] = true
			all = append(all, in)
		}
	}
	for _, s := range p.Steps {
		for _, in := range s.Deferred() {
			if in.From != "" {
				add(in, cmp.Or(in.Key.Cluster, p.Defaults.Cluster))
			}
		}
	}
	for _, c := range p.Clusters {
		if ref := c.KubeconfigSecret; ref != nil {
			add(plan.Input{From: plan.FromSecret, Key: *ref}, cmp.Or(ref.Cluster, p.Defaults.Cluster))
		}
	}
	return all
}

// mostTold is how many findings of missing rights are told; of one step and purpose there
// is one.
const mostTold = 20

// tellMissing tells which rights are missing, those of a step for one purpose together.
func (o *one) tellMissing(missing []rights.Rule) {
	type group struct{ step, purpose string }
	var (
		order []group
		rules = map[group][]rights.Rule{}
	)
	for _, r := range missing {
		g := group{r.Step, r.For}
		if rules[g] == nil {
			order = append(order, g)
		}
		rules[g] = append(rules[g], r)
	}
	for i, g := range order {
		if i == mostTold {
			o.find(finding.Finding{Rule: Rights, Severity: finding.Warning, Message: fmt.Sprintf("%d more purposes lack rights", len(order)-i), Hint: rightsHint})
			return
		}
		o.find(o.lacking(g.step, g.purpose, rules[g]))
	}
}

// rightsHint says what to do about rights that are missing.
const rightsHint = "kplan rbac PLAN writes the roles that the plan needs"

// lacking is the finding of some rights that a step lacks for one purpose.
func (o *one) lacking(step, purpose string, rules []rights.Rule) finding.Finding {
	var texts []string
	f := finding.Finding{Rule: Rights, Severity: finding.Note, Step: step}
	for _, k := range o.steps {
		if k.Name == step {
			f = Find(Rights, k.Step, "", "", "name")
			f.Severity = finding.Note
		}
	}
	for _, r := range rules {
		texts = append(texts, r.String())
		switch {
		case !r.Optional && !r.Other:
			f.Severity = finding.Error
		case !r.Optional && f.Severity != finding.Error:
			f.Severity = finding.Warning
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "SelfSubjectAccessReview", Field: "status.allowed", Value: "false: " + r.String()})
	}
	f.Hint = rightsHint
	f.Message = "may not " + some(texts) + ": it needs that " + purpose
	switch f.Severity {
	case finding.Error:
	case finding.Warning:
		f.Message = "may not " + some(texts) + ": it needs that " + purpose + ", unless another right does, such as escalate"
	case finding.Note:
		f.Message = "may not " + some(texts) + ", which would help " + purpose
	}
	return f
}

// Review asks the API server which of some rights the user lacks. Who may do all is asked
// about once. Rights in a namespace are first looked for in a list of all that the user has
// there; what that does not have, and rights to the whole cluster, are asked for one by one,
// since such lists may be incomplete.
func Review(ctx context.Context, client authorizationclient.AuthorizationV1Interface, rules []rights.Rule) ([]rights.Rule, error) {
	v := &review{client: client, asked: map[question]*answer{}}
	if all, err := v.ask(ctx, rights.Rule{Group: "*", Resource: "*", Verb: "*"}, ""); err != nil || all {
		return nil, err
	}
	lists, err := v.lists(ctx, rules)
	if err != nil {
		return nil, err
	}
	var (
		group  errgroup.Group
		lacks  = make([]bool, len(rules))
		failed = make([]error, len(rules))
	)
	group.SetLimit(inFlight)
	for i, r := range rules {
		if has(lists[r.Namespace], r) {
			continue
		}
		group.Go(func() error {
			lacks[i], failed[i] = v.lacks(ctx, r)
			return nil
		})
	}
	_ = group.Wait()
	var missing []rights.Rule
	for i, r := range rules {
		if failed[i] != nil {
			return nil, failed[i]
		}
		if lacks[i] {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

// has reports whether rules grant a right to each of its objects.
func has(granted []rights.Rule, r rights.Rule) bool {
	covers := func(r rights.Rule) bool {
		for _, g := range granted {
			if g.Covers(r) {
				return true
			}
		}
		return false
	}
	if r.Names == nil || covers(r) {
		return covers(r)
	}
	for _, name := range r.Names {
		r.Names = []string{name}
		if !covers(r) {
			return false
		}
	}
	return true
}

// review asks about rights, each once.
type review struct {
	client authorizationclient.AuthorizationV1Interface

	mu    sync.Mutex
	asked map[question]*answer
}

type question struct{ group, resource, verb, url, namespace, name string }

type answer struct {
	once    sync.Once
	allowed bool
	err     error
}

// lists reads what the user may do in each namespace, as far as the API server can say.
func (v *review) lists(ctx context.Context, rules []rights.Rule) (map[string][]rights.Rule, error) {
	namespaces := map[string]bool{}
	for _, r := range rules {
		if r.Namespace != "" {
			namespaces[r.Namespace] = true
		}
	}
	var (
		mu    sync.Mutex
		lists = map[string][]rights.Rule{}
		group errgroup.Group
	)
	group.SetLimit(inFlight)
	for namespace := range namespaces {
		group.Go(func() error {
			spec := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
			review, err := v.client.SelfSubjectRulesReviews().Create(ctx, spec, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			lists[namespace] = granted(review.Status.ResourceRules, namespace)
			return nil
		})
	}
	return lists, group.Wait()
}

// granted are the rights of a list of rules.
func granted(list []authorizationv1.ResourceRule, namespace string) []rights.Rule {
	var all []rights.Rule
	for _, l := range list {
		for _, verb := range l.Verbs {
			for _, group := range l.APIGroups {
				for _, resource := range l.Resources {
					r := rights.Rule{Group: group, Resource: resource, Verb: verb, Namespace: namespace}
					if len(l.ResourceNames) > 0 {
						r.Names = l.ResourceNames
					}
					all = append(all, r)
				}
			}
		}
	}
	return all
}

// lacks reports whether the user lacks a right to any of its objects.
func (v *review) lacks(ctx context.Context, r rights.Rule) (bool, error) {
	if all, err := v.ask(ctx, r, ""); err != nil || all || r.Names == nil {
		return !all, err
	}
	for _, name := range r.Names {
		if allowed, err := v.ask(ctx, r, name); err != nil || !allowed {
			return true, err
		}
	}
	return false, nil
}

// ask asks the API server about one object, or all of a resource.
func (v *review) ask(ctx context.Context, r rights.Rule, name string) (bool, error) {
	q := question{r.Group, r.Resource, r.Verb, r.URL, r.Namespace, name}
	v.mu.Lock()
	a := v.asked[q]
	if a == nil {
		a = &answer{}
		v.asked[q] = a
	}
	v.mu.Unlock()
	a.once.Do(func() {
		spec := authorizationv1.SelfSubjectAccessReviewSpec{}
		if r.URL != "" {
			spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: r.URL, Verb: r.Verb}
		} else {
			resource, sub, _ := strings.Cut(r.Resource, "/")
			spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
				Group: r.Group, Resource: resource, Subresource: sub, Verb: r.Verb, Namespace: r.Namespace, Name: name,
			}
		}
		answer, err := v.client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if a.err = err; err == nil {
			a.allowed = answer.Status.Allowed
		}
	})
	return a.allowed, a.err
}
