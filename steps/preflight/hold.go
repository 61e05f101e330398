package preflight

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/steps/rights"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Hold tells what stands in the way of a program whose requests are to be held, and that
// kplan knows nothing of: a cluster that does not answer, rights that are missing to see
// when webhooks answer, webhooks that fail requests and that nobody is behind. It ends with
// ctx, or after Bound. The configuration wants no rate limit. With strict a cluster that does
// not answer is told too, of which the program hears by itself. found is called by one
// goroutine at a time.
func Hold(ctx context.Context, config *rest.Config, about string, strict bool, found func(finding.Finding)) {
	ctx, cancel := context.WithTimeoutCause(ctx, Bound, errLate)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return // the program finds out too
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return
	}
	missing, err := Review(ctx, client.AuthorizationV1(), rights.Holding())
	if err != nil && ctx.Err() != nil {
		found(finding.Finding{Rule: Unchecked, Severity: finding.Note, Message: fmt.Sprintf("not known within %s: whether %s can be reached", Bound, about)})
		return
	}
	if err != nil && !strict {
		return
	}
	if err != nil {
		found(finding.Finding{Rule: Reach, Severity: finding.Warning, Message: fmt.Sprintf("%s: %v", about, err), Hint: hintOf(err)})
		return
	}
	if len(missing) > 0 {
		found(unseeing(missing))
	}
	view := survey.New(dyn)
	defer view.Close()
	closed := func(e webhook.Entry) bool { return e.FailurePolicy == admissionv1.Fail }
	statuses, ok := statusesOf(ctx, view, closed)
	if !ok {
		found(finding.Finding{Rule: Unchecked, Severity: finding.Note, Message: fmt.Sprintf("not known within %s: which webhooks cannot be called", Bound)})
		return
	}
	for _, st := range statuses {
		if r, missing := lacks(st.Ladder); missing && arriving(st) == "" {
			found(abandoned(st, r))
		}
	}
}

// unseeing is the finding of rights that are missing to see how webhooks stand.
func unseeing(missing []rights.Rule) finding.Finding {
	var texts []string
	for _, r := range missing {
		texts = append(texts, r.String())
	}
	slices.Sort(texts)
	return finding.Finding{
		Rule: Rights, Severity: finding.Note,
		Message: "may not " + some(texts) + ", which would help to see when a webhook answers: held requests are sent again from time to time instead",
	}
}

// abandoned is the finding of a webhook that nobody is behind.
func abandoned(st survey.Status, r webhook.Reading) finding.Finding {
	return finding.Finding{
		Rule: Webhook, Severity: finding.Warning, Object: st.Source().String(), Evidence: evidenceOf(st, r),
		Message: fmt.Sprintf("webhook %q of %s%s cannot be called: %s; what it guards is held until that changes", st.Name, st.Configuration, ownedBy(st.Entry), r.Reason),
		Hint:    "if it is not what the command mends, start it again, or delete " + st.Source().String() + " if it was left behind",
	}
}
