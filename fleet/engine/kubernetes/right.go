package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Right is one that somebody needs in the engine's namespace.
type Right struct{ Verb, Group, Resource string }

func (r Right) String() string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	return r.Verb + " " + name
}

func rights(group, resource string, verbs ...string) []Right {
	var all []Right
	for _, v := range verbs {
		all = append(all, Right{v, group, resource})
	}
	return all
}

// The rights that it takes to look at runs, to give them orders, to drive them, and to begin
// them.
var (
	ToLook  = slices.Concat(rights("", "configmaps", "get", "list"), rights("batch", "jobs", "list", "watch"), rights("", "pods", "list", "watch"))
	ToOrder = slices.Concat(rights("", "configmaps", "get", "list", "update"), rights("batch", "jobs", "get"))
	ToDrive = slices.Concat(ToLook, ToOrder, rights("batch", "jobs", "patch"))
	ToBegin = slices.Concat(ToDrive, rights("", "configmaps", "create", "delete"), rights("batch", "jobs", "create"))
	// ToRead is the right to read what workers write.
	ToRead = []Right{{"get", "", "pods/log"}}
)

// ForbiddenError says which rights somebody does not have in the engine's namespace.
type ForbiddenError struct {
	Namespace string
	Missing   []Right
}

func (e *ForbiddenError) Error() string {
	var all []string
	for _, r := range e.Missing {
		all = append(all, r.String())
	}
	return fmt.Sprintf("rights are missing in namespace %s of the management cluster: %s", e.Namespace, strings.Join(all, ", "))
}

// Hint says what to do about it.
func (e *ForbiddenError) Hint() string {
	return "have somebody bind a Role with these to you there; the pods of a run have those that kplan fleet rbac prints"
}

// Check returns a *ForbiddenError when the user does not have rights. It is nil where nobody
// can tell.
func (s Store) Check(ctx context.Context, want []Right) error {
	var (
		group   sync.WaitGroup
		mu      sync.Mutex
		missing []Right
		failed  error
	)
	all := slices.Clone(want)
	slices.SortFunc(all, func(a, b Right) int {
		return strings.Compare(a.Group+"/"+a.Resource+"/"+a.Verb, b.Group+"/"+b.Resource+"/"+b.Verb)
	})
	all = slices.Compact(all)
	for _, r := range all {
		group.Go(func() {
			resource, sub, _ := strings.Cut(r.Resource, "/")
			review, err := s.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: s.Namespace, Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: sub,
				}},
			}, metav1.CreateOptions{})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = err
			case !review.Status.Allowed:
				missing = append(missing, r)
			}
		})
	}
	group.Wait()
	switch {
	case failed != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case failed != nil:
		return fmt.Errorf("asking the management cluster for your rights: %w", failed)
	case len(missing) > 0:
		slices.SortFunc(missing, func(a, b Right) int { return slices.Index(all, a) - slices.Index(all, b) })
		return &ForbiddenError{Namespace: s.Namespace, Missing: missing}
	}
	return nil
}
