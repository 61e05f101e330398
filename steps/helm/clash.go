package helm

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kube"
)

// Clash tells of which other chart the release is that is installed under the
// step's name; "" when there is none, or when it is of the step's chart.
func (a *Action) Clash(ctx context.Context) (string, error) {
	ch, err := a.source.load(ctx)
	if err != nil {
		return "", err
	}
	conn, err := a.connect(ctx, silent{})
	if err != nil {
		return "", err
	}
	all, err := conn.Releases.History(a.release)
	if len(all) == 0 {
		if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return "", kube.Explain(fmt.Errorf("reading release %s/%s: %w", a.namespace, a.release, cause(ctx, err)),
				kube.Op{Verb: "list", Namespace: a.namespace})
		}
		return "", nil
	}
	for _, r := range all {
		if r.Chart != nil && r.Chart.Metadata != nil && r.Chart.Metadata.Name != ch.Metadata.Name {
			return r.Chart.Metadata.Name, nil
		}
	}
	return "", nil
}

// silent reports to nobody.
type silent struct{}

// Report implements runner.Reporter.
func (silent) Report(runner.Report) {}
