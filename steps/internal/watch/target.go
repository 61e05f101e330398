package watch

import (
	"cmp"
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// Target is an object to wait for, or all objects that a selector picks. Its
// kind need not be known to the API server yet.
type Target struct {
	// Kind is the object's kind; without a version the group's preferred one.
	Kind schema.GroupVersionKind
	// Type is a type argument of kubectl, such as deploy or certificates.v1.cert-manager.io;
	// used when Kind is empty.
	Type string
	// Namespace is ignored for kinds without; empty means the cluster's default.
	Namespace string
	Name      string
	// Selector picks objects by label when Name is empty. There must be one, and
	// all of them must be as they should.
	Selector string
}

// TargetOf is the target for an object as it was sent to, or read from, the API server.
func TargetOf(u *unstructured.Unstructured) Target {
	return Target{Kind: u.GroupVersionKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// String names the target as kubectl does: deployment/x.
func (t Target) String() string {
	return strings.ToLower(t.kind()) + "/" + cmp.Or(t.Name, t.Selector)
}

// Object names the target as events do: Kind/namespace/name.
func (t Target) Object() string {
	parts := []string{t.kind(), t.Namespace, cmp.Or(t.Name, t.Selector)}
	if t.Namespace == "" {
		parts = []string{parts[0], parts[2]}
	}
	return strings.Join(parts, "/")
}

func (t Target) kind() string { return cmp.Or(t.Kind.Kind, t.Type) }

// describe is what to type to see more of the target.
func (t Target) describe() string {
	s := "kubectl describe " + t.String()
	if t.Name == "" {
		s = "kubectl describe " + strings.ToLower(t.kind()) + " -l " + t.Selector
	}
	if t.Namespace != "" {
		s += " -n " + t.Namespace
	}
	return s
}

// listing is what targets have in common that one list and watch can serve.
type listing struct {
	kind      schema.GroupVersionKind
	arg       string
	namespace string
	selector  string
	// beside says that the objects are no targets, but may tell why targets stall, and
	// fields picks them.
	beside bool
	fields string
}

func (t Target) listing(s *cluster.Session) listing {
	f := listing{kind: t.Kind, namespace: cmp.Or(t.Namespace, s.Cluster.Namespace())}
	if t.Kind.Kind == "" {
		f.arg = t.Type
	}
	if t.Name == "" {
		f.selector = t.Selector
	}
	return f
}

func (f listing) mapping(ctx context.Context, s *cluster.Session) (*meta.RESTMapping, error) {
	if f.arg != "" {
		return s.Cluster.MappingFor(ctx, f.arg)
	}
	return s.Cluster.Mapping(ctx, f.kind)
}
