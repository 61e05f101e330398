// Package doctor looks for what is wrong with a cluster: webhooks that cannot answer,
// certificates that do not fit, hooks that cannot end, objects that cannot go. What a
// check finds is a finding.Finding with the fields that it was read from.
//
// An examination reads, and writes nothing: it sends no dry runs and calls no webhook.
// What may not be read is told, and no check guesses about it. Only Apply and Undo write,
// which are for a finding that somebody chose. It does not know what a plan wants
// of the cluster; steps/preflight does.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/kplan-dev/kplan/internal/scrub"
	"github.com/kplan-dev/kplan/plan/finding"
)

// Check is one thing that can be wrong.
type Check struct {
	finding.Rule
	// look finds. It gives no rule, and a severity only where that is not the rule's.
	look func(context.Context, *Cluster) []finding.Finding
	// mend finds what mends a finding, is safe and can be taken back; nil for checks that
	// know nothing of the kind.
	mend func(context.Context, *Cluster, finding.Finding) (Change, error)
}

// Mends reports whether the check knows a remedy that can be taken back.
func (c Check) Mends() bool { return c.mend != nil }

// Checks returns all checks, in the order of their documentation.
func Checks() []Check {
	return []Check{
		webhookServiceGone,
		webhookServicePort,
		webhookNoEndpoints,
		webhookFailOpen,
		webhookCAMissing,
		webhookCAInvalid,
		webhookCertificate,
		webhookCertificateExpiry,
		webhookGuardsItself,
		webhookOverlap,
		crdConversion,
		crdStoredVersion,
		crdNotEstablished,
		certificateNotReady,
		issuerNotReady,
		missingReference,
		hookJob,
		stuckDeletion,
		namespaceTerminating,
		releasePending,
		releaseFailed,
		releaseRecord,
		quotaFull,
	}
}

// Report is what an examination found.
type Report struct {
	// Findings are the worst first, and of one severity in the order of their objects.
	Findings []finding.Finding
	// Unread says what could not be read, a text each. What depends on it was not
	// looked at.
	Unread []string
	// Blind reports that webhook configurations were to be read, and could not be: that
	// nothing was found about webhooks says nothing then.
	Blind bool
}

// Examine does checks side by side.
func Examine(ctx context.Context, c *Cluster, checks []Check) (Report, error) {
	found := make([][]finding.Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() {
			for _, f := range check.look(ctx, c) {
				f.Rule = check.ID
				f.Severity = cmp.Or(f.Severity, check.Severity)
				found[i] = append(found[i], scrubbed(f))
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	findings := slices.Concat(found...)
	slices.SortStableFunc(findings, func(a, b finding.Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return Report{Findings: findings, Unread: c.unreadable(), Blind: c.blind.Load()}, nil
}

// scrubbed is a finding without what looks like a secret: conditions, events and the ends of
// containers have texts of programs, which may print what they were given.
func scrubbed(f finding.Finding) finding.Finding {
	f.Message, f.Hint = scrub.Text(f.Message), scrub.Text(f.Hint)
	f.Evidence = slices.Clone(f.Evidence)
	for i := range f.Evidence {
		f.Evidence[i].Value = scrub.Text(f.Evidence[i].Value)
	}
	return f
}

// rank is the place of a severity, the worst first.
func rank(s finding.Severity) int {
	return slices.Index([]finding.Severity{finding.Error, finding.Warning, finding.Note}, s)
}
