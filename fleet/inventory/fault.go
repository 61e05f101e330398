package inventory

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// AbsentError says that a management cluster does not have what an inventory looks for.
type AbsentError struct {
	// Cluster names the management cluster, and What is missing there, for people.
	Cluster, What string
	// Resource is what it would have to serve.
	Resource schema.GroupResource
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("%s has no %s: it does not serve %s", e.Cluster, e.What, e.Resource)
}

// Hint implements the interface that runner.HintOf looks for.
func (e *AbsentError) Hint() string {
	return "is it the right cluster? the inventory's cluster names one of the fleet's clusters, and without it that of the command line is asked"
}

// ForbiddenError says that a right is missing in a management cluster.
type ForbiddenError struct {
	Cluster         string // for people
	Verb            string
	Resource        schema.GroupResource
	Namespace, Name string // "" is all
	Cause           error
}

func (e *ForbiddenError) Error() string {
	object := e.Resource.String()
	if e.Name != "" {
		object += " " + e.Name
	}
	where := "in all namespaces"
	if e.Namespace != "" {
		where = "in namespace " + e.Namespace
	}
	return fmt.Sprintf("%s does not allow to %s %s %s", e.Cluster, e.Verb, object, where)
}

// Unwrap returns Cause.
func (e *ForbiddenError) Unwrap() error { return e.Cause }

// Hint implements the interface that runner.HintOf looks for.
func (e *ForbiddenError) Hint() string {
	where := " -A"
	if e.Namespace != "" {
		where = " -n " + e.Namespace
	}
	hint := fmt.Sprintf("grant the verb %s on %s; check it by: kubectl auth can-i %s %s%s", e.Verb, e.Resource, e.Verb, e.Resource, where)
	if e.Namespace == "" {
		hint += "; or name a namespace in the inventory"
	}
	return hint
}

// UnreachableError says that a management cluster gives no answer.
type UnreachableError struct {
	Cluster string // for people
	Cause   error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s cannot be reached: %v", e.Cluster, short(e.Cause))
}

// Unwrap returns Cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// Hint implements the interface that runner.HintOf looks for.
func (e *UnreachableError) Hint() string {
	return "check that the address in its kubeconfig is right and that this machine can reach it"
}

// RefusedError says that a management cluster does not take the credentials.
type RefusedError struct {
	Cluster string // for people
	Cause   error
}

func (e *RefusedError) Error() string {
	return e.Cluster + " does not accept the credentials in its kubeconfig"
}

// Unwrap returns Cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// Hint implements the interface that runner.HintOf looks for.
func (e *RefusedError) Hint() string {
	return "they were revoked or have expired: log in again, or renew what its kubeconfig is read from"
}

// KubeconfigError says that a kubeconfig is not there, or may not be used.
type KubeconfigError struct {
	// Source is where it is looked for, for people: Secret prod/east-kubeconfig in cluster mgmt.
	Source, Why, hint string
}

func (e *KubeconfigError) Error() string { return e.Source + ": " + e.Why }

// Hint implements the interface that runner.HintOf looks for.
func (e *KubeconfigError) Hint() string { return e.hint }

// ClassOf is the kind of failure that an error of this package is for a cluster: that its
// kubeconfig cannot be had.
func ClassOf(err error) fleet.Class {
	switch {
	case is[*UnreachableError](err):
		return fleet.Unreachable
	case is[*ForbiddenError](err):
		return fleet.Forbidden
	}
	return fleet.Refused
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// request is what was asked of a management cluster.
type request struct {
	verb            string
	resource        schema.GroupResource
	namespace, name string
}

// explain says what an error of a request means.
func explain(err error, cluster string, r request) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return &ForbiddenError{Cluster: cluster, Verb: r.verb, Resource: r.resource, Namespace: r.namespace, Name: r.name, Cause: err}
	case apierrors.IsUnauthorized(err):
		return &RefusedError{Cluster: cluster, Cause: err}
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return runner.WithHint(fmt.Errorf("%s: %w", cluster, err), "the API server is busy or restarts: another attempt may pass")
	case isNetwork(err):
		return &UnreachableError{Cluster: cluster, Cause: err}
	}
	return fmt.Errorf("%s: %w", cluster, err)
}

// isNetwork reports whether no answer came.
func isNetwork(err error) bool {
	return is[*url.Error](err) || is[net.Error](err) || is[*lateError](err)
}

// lateError says that an answer took too long.
type lateError struct{}

func (*lateError) Error() string { return fmt.Sprintf("no answer within %s", answerWithin) }

// Unanswered says in few words that a cluster gave no answer, or none of use.
func Unanswered(err error) error {
	return runner.WithHint(fmt.Errorf("it cannot be reached: %w", short(err)), "check that the address in its kubeconfig is right and that this machine can reach it")
}

// short leaves out the method and the address that net/http puts before a cause.
func short(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op
	}
	return err
}
