package helm

import (
	"fmt"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// records keeps the revisions of releases, as Helm's driver below it does. It is
// where kplan learns what Helm is about to send, and waits for what is held
// before Helm writes down that all was done.
type records struct {
	driver.Driver
	client *client
	// failure is why a revision was not deployed that Helm took to be.
	failure error
}

var _ driver.Driver = (*records)(nil)

// Create writes a new revision, whose objects Helm sends next.
func (r *records) Create(key string, rel *release.Release) error {
	r.client.revision.begin(rel)
	return r.Driver.Create(key, rel)
}

// Update writes how a revision stands. An upgrade supersedes the revision before
// first: when an object was held in vain, that one stays what it was.
func (r *records) Update(key string, rel *release.Release) error {
	switch rel.Info.Status {
	case release.StatusDeployed, release.StatusSuperseded:
		if r.failure == nil {
			r.failure = r.client.gathered()
		}
		if r.failure == nil {
			break
		}
		if rel.Info.Status == release.StatusSuperseded {
			return nil
		}
		rel.SetStatus(release.StatusFailed, fmt.Sprintf("Release %q failed: %s", rel.Name, r.failure))
	default:
	}
	return r.Driver.Update(key, rel)
}
