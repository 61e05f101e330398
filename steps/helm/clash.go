package helm

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// Clash tells of which other chart the release is that is installed under the
// step's name; "" when there is none, or when it is of the step's chart.
func (a *Action) Clash(ctx context.Context) (string, error) {
	ch, err := a.Source.Load(ctx)
	if err != nil {
		return "", err
	}
	all, err := a.history(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range all {
		if r.Chart != nil && r.Chart.Metadata != nil && r.Chart.Metadata.Name != ch.Metadata.Name {
			return r.Chart.Metadata.Name, nil
		}
	}
	return "", nil
}

// history are the revisions of the step's release; none when there is no release.
func (a *Action) history(ctx context.Context) ([]*release.Release, error) {
	conn, err := a.connect(ctx, silent{})
	if err != nil {
		return nil, err
	}
	all, err := conn.Releases.History(a.ReleaseName)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, kubeerr.Explain(fmt.Errorf("reading release %s/%s: %w", a.Namespace, a.ReleaseName, cause(ctx, err)),
			kubeerr.Op{Verb: "list", Namespace: a.Namespace})
	}
	return all, nil
}

// silent reports to nobody.
type silent struct{}

// Report implements runner.Reporter.
func (silent) Report(runner.Report) {}
