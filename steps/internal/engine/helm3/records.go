package helm3

import (
	"errors"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// records writes revisions as Helm 3 does. Those that say what Helm 3 does not know,
// such as how they are applied, are written as Helm 4 does: it would be lost otherwise.
type records struct {
	engine.Records
	driver *driver.Secrets
}

func newRecords(client typedcorev1.SecretInterface) engine.Records {
	return records{engine.Secrets{Client: client}.Records(), driver.NewSecrets(client)}
}

// Create implements engine.Records.
func (d records) Create(key string, r *engine.Release) error {
	if ofHelm4(r) {
		return d.Records.Create(key, r)
	}
	theirs, err := newBooks().theirs(r)
	if err != nil {
		return err
	}
	return d.driver.Create(key, theirs)
}

// Update implements engine.Records.
func (d records) Update(key string, r *engine.Release) error {
	if ofHelm4(r) {
		return d.Records.Update(key, r)
	}
	theirs, err := newBooks().theirs(r)
	if err != nil {
		return err
	}
	return d.driver.Update(key, theirs)
}

// ofHelm4 reports whether a revision says what Helm 3 does not know.
func ofHelm4(r *engine.Release) bool {
	return r.ApplyMethod != "" || r.Info != nil && r.Info.RollbackRevision != 0
}

// storage is what Helm takes for its storage driver: the step's records.
type storage struct {
	driver.Driver // for what no operation asks
	records       engine.Records
	books         *books
}

var _ driver.Driver = (*storage)(nil)

// Create implements driver.Creator.
func (d *storage) Create(key string, r *release.Release) error {
	d.books.made = r
	return d.write(key, r, func(key string, own *engine.Release) error {
		own.ApplyMethod = d.books.method
		return d.records.Create(key, own)
	})
}

// Update implements driver.Updator.
func (d *storage) Update(key string, r *release.Release) error {
	return d.write(key, r, d.records.Update)
}

func (d *storage) write(key string, r *release.Release, write func(string, *engine.Release) error) error {
	own, err := d.books.pull(r)
	if err != nil {
		return err
	}
	if err := write(key, own); err != nil {
		return theirError(err)
	}
	return d.books.push(r)
}

// Get implements driver.Queryor.
func (d *storage) Get(key string) (*release.Release, error) {
	own, err := d.records.Get(key)
	if err != nil {
		return nil, theirError(err)
	}
	return d.books.theirs(own)
}

// Query implements driver.Queryor.
func (d *storage) Query(labels map[string]string) ([]*release.Release, error) {
	found, err := d.records.Query(labels)
	if err != nil {
		return nil, theirError(err)
	}
	var all []*release.Release
	for _, own := range found {
		r, err := d.books.theirs(own)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Delete implements driver.Deletor.
func (d *storage) Delete(key string) (*release.Release, error) {
	own, err := d.records.Delete(key)
	if err != nil {
		return nil, theirError(err)
	}
	return d.books.theirs(own)
}

// theirError is an error of records as Helm 3 knows it.
func theirError(err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return driver.ErrReleaseNotFound
	}
	return err
}
