package kubeerr

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	changed = "somebody else changed the object in between; another attempt starts from what it is now"
	etcd    = "the cluster's database was busy or changed its leader, as it does when a machine is slow or restarts; another attempt may pass"
)

// inWords are what answers of the API server mean, by a part of their text: of
// k8s.io/apiserver, k8s.io/apimachinery pkg/api/validation, k8s.io/pod-security-admission
// and etcd. The first that fits counts.
var inWords = []struct{ text, words string }{
	{"exceeded quota", "the namespace's quota has no room for it: raise the quota, or request less"},
	{"violates PodSecurity", "the namespace forbids such pods (its label pod-security.kubernetes.io/enforce): change the pod, or the label"},
	{"field is immutable", "that field cannot be changed once the object exists: delete the object, or give it another name"},
	{"the object has been modified", changed},
	{"please apply your changes to the latest version", changed},
	{"unknown field", "a field's name is wrong: see kubectl explain"},
	{"etcdserver: mvcc: database space exceeded", "the cluster's database is full: nothing can be written until whoever runs it makes room"},
	{"etcdserver: ", etcd},
	{"already exists", "an object of that name is there already: delete it, or give one of the two another name"},
}

// words says what an answer of the API server means; "" when there is nothing to
// add.
func words(err error) string {
	text := err.Error()
	for _, w := range inWords {
		if strings.Contains(text, w.text) {
			return w.words
		}
	}
	switch {
	case apierrors.IsTooManyRequests(err):
		return "the API server has more to do than it can, and asks to come back later"
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return "the API server, or what it asks itself, did not answer in time: it has too much to do, starts or stops"
	}
	return ""
}
