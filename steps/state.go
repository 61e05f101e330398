package steps

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// Home is where the records of the plan's runs are kept: the cluster of the command
// line if a step works on it, else that of defaults.cluster, else that of the first
// step whose kubeconfig is on this machine. It fails with ErrNoCluster when there is
// none to ask.
func (s *Steps) Home(ctx context.Context) (ledger.Place, error) {
	if len(s.conns) == 0 {
		return ledger.Place{}, ErrNoCluster
	}
	conn := home(s.plan, s.conns)
	if conn == nil {
		return ledger.Place{}, errHomeless
	}
	c, err := conn.Connect(ctx)
	if err != nil {
		return ledger.Place{}, err
	}
	return placeOn(c, s.plan)
}

// ErrNoCluster says that a plan, or what is picked of it, works on no cluster.
var ErrNoCluster = errors.New("no step works on a cluster")

var errHomeless = errors.New("the kubeconfigs of all of the plan's clusters are made by its steps")

// Home is Steps.Home for who runs nothing; that of a plan without steps is the
// cluster of the command line.
func Home(ctx context.Context, c Config) (ledger.Place, error) {
	var at *cluster.Cluster
	if len(c.Plan.Steps) == 0 {
		var err error
		if at, err = cluster.Connect(ctx, c.Flags, c.UserAgent); err != nil {
			return ledger.Place{}, err
		}
		return placeOn(at, c.Plan)
	}
	all, err := cluster.Open(c.Plan, c.Flags, c.UserAgent)
	if err != nil {
		return ledger.Place{}, err
	}
	s := &Steps{plan: c.Plan, conns: all}
	place, err := s.Home(ctx)
	s.Close()
	return place, err
}

// home is the way to the plan's home; nil when nobody knows it yet.
func home(p *plan.Plan, conns map[string]*cluster.Conn) *cluster.Conn {
	name, known := cluster.Home(p, conns)
	if !known {
		return nil
	}
	return conns[name]
}

func placeOn(c *cluster.Cluster, p *plan.Plan) (ledger.Place, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return ledger.Place{}, fmt.Errorf("making the client of the records: %w", err)
	}
	return ledger.Place{Client: client, Namespace: p.StateNamespace(), Plan: p.Metadata.Name}, nil
}
