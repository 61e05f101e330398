package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// history is the revisions of a release, newest first.
type history []*engine.Release

// history reads that of the step's release; it is empty when there is none.
func (a *Action) history(ctx context.Context, c *connection) (history, error) {
	secrets := engine.Secrets{Client: c.client.session.Clientset.CoreV1().Secrets(a.Namespace)}
	all, unread, err := secrets.List(ctx, labels.Set(engine.Of(a.ReleaseName)).String())
	if err != nil {
		return nil, kubeerr.Explain(fmt.Errorf("reading release %s/%s: %w", a.Namespace, a.ReleaseName, cause(ctx, err)),
			kubeerr.Op{Verb: "list", Namespace: a.Namespace})
	}
	h := newestFirst(all)
	return h, damaged(h, unread)
}

// damaged tells that the newest record of a release cannot be read: Helm leaves such ones
// out, and would give their numbers to others. Those of older revisions harm nobody.
func damaged(h history, unread []error) error {
	for _, err := range unread {
		e, ok := errors.AsType[*engine.UnreadError](err)
		if ok && (len(h) == 0 || e.Revision() > h.last().Version) {
			next := "no revision can be read: the release is installed anew, and takes its objects over"
			if len(h) > 0 {
				next = fmt.Sprintf("the run then goes on from revision %d, which is %s", h.last().Version, h.last().Info.Status)
			}
			return runner.WithHint(runner.Permanent(fmt.Errorf("the record of the newest revision is damaged: the Secret %s holds no release", e.Secret)),
				"restore the Secret from a backup, or delete it; "+next)
		}
	}
	return nil
}

func newestFirst(all []*engine.Release) history {
	return slices.SortedFunc(slices.Values(all), func(a, b *engine.Release) int { return b.Version - a.Version })
}

// last is the newest revision; nil when there is none.
func (h history) last() *engine.Release {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

// deployed is the newest deployed revision; nil when there is none. Helm's own
// Storage.Deployed takes every error that says "not found" for the lack of one.
func (h history) deployed() *engine.Release {
	i := slices.IndexFunc(h, func(r *engine.Release) bool { return r.Info.Status == engine.StatusDeployed })
	if i < 0 {
		return nil
	}
	return h[i]
}

// failedInstalls are those revisions, newest first, that an install goes on with:
// none of them was deployed, the oldest was made by an install, and there are no
// others since. There are none when that is not certain.
func (h history) failedInstalls() []*engine.Release {
	if h.deployed() != nil {
		return nil
	}
	failed := 0
	for i, r := range h {
		if r.Info.Status != engine.StatusFailed {
			break
		}
		if r.Info.FirstDeployed.Equal(r.Info.LastDeployed) { // upgrades and rollbacks keep the first
			failed = i + 1
		}
	}
	return h[:failed]
}
