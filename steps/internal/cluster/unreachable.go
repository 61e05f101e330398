package cluster

import (
	"context"
	"errors"
	"net"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// unreachable says that the cluster did not answer at all.
func (a *Access) unreachable(err error) error {
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return refused // it did answer
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	explained := kubeerr.ExplainNetwork(err)
	hint := runner.HintOf(explained)
	if hint == "" {
		hint = "check that the address in the kubeconfig is right and that this machine can reach it"
	}
	return runner.WithHint(&UnreachableError{a.what(), short(err)}, hint)
}

// UnreachableError says that a cluster did not answer at all.
type UnreachableError struct {
	// Cluster names the cluster with its address, for people.
	Cluster string
	Cause   error
}

func (e *UnreachableError) Error() string {
	return e.Cluster + " cannot be reached: " + e.Cause.Error()
}

// Unwrap returns Cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// short leaves out the method and address that net/http puts before the cause.
func short(err error) error {
	inner := errors.Unwrap(err)
	if inner == nil {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](inner); ok {
		return op
	}
	return inner
}
