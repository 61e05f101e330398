package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// history is the revisions of a release, newest first.
type history []*release.Release

// history reads that of the step's release; it is empty when there is none.
func (a *Action) history(ctx context.Context, c *connection) (history, error) {
	all, err := c.Releases.History(a.ReleaseName)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, kubeerr.Explain(fmt.Errorf("reading release %s/%s: %w", a.Namespace, a.ReleaseName, cause(ctx, err)),
			kubeerr.Op{Verb: "list", Namespace: a.Namespace})
	}
	return newestFirst(all), nil
}

func newestFirst(all []*release.Release) history {
	return slices.SortedFunc(slices.Values(all), func(a, b *release.Release) int { return b.Version - a.Version })
}

// last is the newest revision; nil when there is none.
func (h history) last() *release.Release {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

// deployed is the newest deployed revision; nil when there is none. Helm's own
// Storage.Deployed takes every error that says "not found" for the lack of one.
func (h history) deployed() *release.Release {
	i := slices.IndexFunc(h, func(r *release.Release) bool { return r.Info.Status == release.StatusDeployed })
	if i < 0 {
		return nil
	}
	return h[i]
}

// failedInstalls are those revisions, newest first, that an install goes on with:
// none of them was deployed, the oldest was made by an install, and there are no
// others since. There are none when that is not certain.
func (h history) failedInstalls() []*release.Release {
	if h.deployed() != nil {
		return nil
	}
	failed := 0
	for i, r := range h {
		if r.Info.Status != release.StatusFailed {
			break
		}
		if r.Info.FirstDeployed.Equal(r.Info.LastDeployed) { // upgrades and rollbacks keep the first
			failed = i + 1
		}
	}
	return h[:failed]
}
