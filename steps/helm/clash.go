package helm

import (
	"context"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// Clash tells of which other chart the release is that is installed under the
// step's name; "" when there is none, or when it is of the step's chart.
func (a *Action) Clash(ctx context.Context, s *cluster.Session) (string, error) {
	ch, err := a.Source.Load(ctx)
	if err != nil {
		return "", err
	}
	all, err := a.installed(ctx, s)
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

// installed reads the history of the step's release, which nothing is done to.
func (a *Action) installed(ctx context.Context, s *cluster.Session) (history, error) {
	conn, err := a.connect(ctx, s, silent{})
	if err != nil {
		return nil, err
	}
	return a.history(ctx, conn)
}

// silent reports to nobody.
type silent struct{}

// Report implements runner.Reporter.
func (silent) Report(runner.Report) {}
