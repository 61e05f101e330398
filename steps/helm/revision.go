package helm

import (
	"fmt"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/kplan-dev/kplan/runner"
)

// records is where Helm keeps revisions. It tells of each one that was written down:
// what becomes of an attempt, that revision is there to be looked at.
type records struct {
	driver.Driver
	reporter runner.Reporter
}

var _ driver.Driver = records{}

// Create writes a new revision down.
func (r records) Create(key string, rel *release.Release) error {
	if err := r.Driver.Create(key, rel); err != nil {
		return err
	}
	r.reporter.Report(runner.Report{
		Type: runner.TypeProgress, Revision: rel.Version, Message: fmt.Sprintf("recorded as revision %d", rel.Version),
	})
	return nil
}
