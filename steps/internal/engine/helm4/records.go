package helm4

import (
	"fmt"

	helmrelease "helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/storage/driver"

	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// storage is what Helm takes for its storage driver: the step's records. Both have the
// same data.
type storage struct {
	driver.Driver // for what no operation asks
	records       engine.Records
}

var _ driver.Driver = storage{}

// Create implements driver.Creator.
func (d storage) Create(key string, r helmrelease.Releaser) error {
	own, err := ownOf(r)
	if err != nil {
		return err
	}
	return d.records.Create(key, own)
}

// Update implements driver.Updator.
func (d storage) Update(key string, r helmrelease.Releaser) error {
	own, err := ownOf(r)
	if err != nil {
		return err
	}
	return d.records.Update(key, own)
}

// Get implements driver.Queryor.
func (d storage) Get(key string) (helmrelease.Releaser, error) {
	own, err := d.records.Get(key)
	if err != nil {
		return nil, err
	}
	return own, nil
}

// Query implements driver.Queryor.
func (d storage) Query(labels map[string]string) ([]helmrelease.Releaser, error) {
	found, err := d.records.Query(labels)
	if err != nil {
		return nil, err
	}
	all := make([]helmrelease.Releaser, len(found))
	for i, own := range found {
		all[i] = own
	}
	return all, nil
}

// Delete implements driver.Deletor.
func (d storage) Delete(key string) (helmrelease.Releaser, error) {
	own, err := d.records.Delete(key)
	if err != nil {
		return nil, err
	}
	return own, nil
}

// ownOf is a release that Helm hands on as anything.
func ownOf(r helmrelease.Releaser) (*engine.Release, error) {
	own, ok := r.(*engine.Release)
	if !ok {
		return nil, fmt.Errorf("unexpected Helm release %T", r)
	}
	return own, nil
}
