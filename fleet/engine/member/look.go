package member

import (
	"context"
	"time"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps"
)

// Look tells what would keep the plan from its work on a cluster: rights that are missing,
// charts that do not render for it, webhooks that nobody is behind. It writes nothing, takes
// no lock, and ends after some time with what it knows. found is called by one goroutine at
// a time. The error says that the cluster cannot be asked, or that the plan is wrong.
func (c *Config) Look(ctx context.Context, cluster fleet.Cluster, within time.Duration, found func(finding.Finding)) error {
	m := &member{Config: c, Run: Run{Cluster: cluster, ID: ledger.NewRunID()}, hide: func(text string) string { return text }}
	p, err := m.load()
	if err != nil {
		return err
	}
	var from *source.Store
	if m.Sources != nil {
		if from, err = m.Sources(p); err != nil {
			return err
		}
	}
	kinds, err := steps.New(ctx, steps.Config{
		Plan: p, Run: m.ID, Flags: m.flags(), Kubeconfigs: map[string]steps.Kubeconfig{m.Target: m.kubeconfig()}, Sources: from, UserAgent: m.UserAgent,
	})
	if err != nil {
		return err
	}
	defer kinds.Close()
	kinds.Preflight(ctx, steps.Preflight{Records: !m.Unrecorded, Strict: true, Unread: true, Within: within}, func(f finding.Finding) {
		f.Message, f.Hint = m.hide(f.Message), m.hide(f.Hint)
		found(f)
	})
	return nil
}
