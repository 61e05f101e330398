package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Key is the name of a revision's record.
func Key(name string, revision int) string {
	return "sh.helm.release.v1." + name + ".v" + strconv.Itoa(revision)
}

// Of are the labels that all records of a release have.
func Of(name string) map[string]string { return map[string]string{"name": name, "owner": "helm"} }

// Secrets are records of releases as Secrets, whose form is the same in every version
// of Helm (helm.sh/helm/v4 pkg/storage/driver/secrets.go). Its own requests have a
// context; those of its Records have none, and end by their transport.
type Secrets struct{ Client typedcorev1.SecretInterface }

// Get returns one revision.
func (s Secrets) Get(ctx context.Context, key string) (*Release, error) {
	secret, err := s.Client.Get(ctx, key, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("reading record %s: %w", key, err)
	}
	r, err := read(secret)
	if err != nil {
		return nil, err
	}
	r.Labels = maps.Clone(r.Labels)
	for _, own := range driver.GetSystemLabels() {
		delete(r.Labels, own)
	}
	return r, nil
}

// List returns the revisions whose Secrets a selector takes. Those that cannot be read
// are left out, and their errors are returned too.
func (s Secrets) List(ctx context.Context, selector string) (found []*Release, unread []error, err error) {
	list, err := s.Client.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		r, err := read(&list.Items[i])
		if err != nil {
			unread = append(unread, err)
			continue
		}
		found = append(found, r)
	}
	return found, unread, nil
}

// Records are the same as an engine wants them, written as Helm 4 writes them.
func (s Secrets) Records() Records { return records{s, driver.NewSecrets(s.Client)} }

type records struct {
	secrets Secrets
	driver  *driver.Secrets
}

// Get implements Records.
func (r records) Get(key string) (*Release, error) { return r.secrets.Get(context.Background(), key) }

// Query implements Records. Those that cannot be read are left out, as by Helm.
func (r records) Query(with map[string]string) ([]*Release, error) {
	selector, err := labels.ValidatedSelectorFromSet(with)
	if err != nil {
		return nil, err
	}
	found, unread, err := r.secrets.List(context.Background(), selector.String())
	if err == nil && len(found)+len(unread) == 0 {
		err = ErrNotFound
	}
	return found, err
}

// Create implements Records.
func (r records) Create(key string, rel *Release) error { return r.driver.Create(key, rel) }

// Update implements Records.
func (r records) Update(key string, rel *Release) error { return r.driver.Update(key, rel) }

// Delete implements Records. One that is gone by the time of the request was deleted by
// it: a request that was carried out, and answered with an error, is sent again.
func (r records) Delete(key string) (*Release, error) {
	rel, err := r.Get(key)
	if err != nil {
		return nil, err
	}
	err = r.secrets.Client.Delete(context.Background(), key, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return rel, err
}

// UnreadError says that a Secret is to be a record of a release, and holds something else.
type UnreadError struct{ Secret string }

func (e *UnreadError) Error() string {
	return fmt.Sprintf("a release cannot be read: its Secret %s holds something else", e.Secret)
}

// Revision is the number in the Secret's name; 0 when it has none.
func (e *UnreadError) Revision() int {
	n, err := strconv.Atoi(e.Secret[strings.LastIndexByte(e.Secret, 'v')+1:])
	if err != nil {
		return 0
	}
	return n
}

// read returns the revision that a Secret holds. What the Secret holds otherwise does
// not show in the error.
func read(secret *corev1.Secret) (*Release, error) {
	r, err := decode(secret.Data["release"])
	if err != nil {
		return nil, &UnreadError{Secret: secret.Name}
	}
	r.Labels = secret.Labels
	return r, nil
}

func decode(text []byte) (*Release, error) {
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	if err != nil {
		return nil, err
	}
	data = data[:n]
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b, 0x08}) { // early ones are not compressed
		zip, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if data, err = io.ReadAll(zip); err != nil {
			return nil, err
		}
	}
	r := new(Release)
	return r, json.Unmarshal(data, r)
}
