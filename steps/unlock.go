package steps

import (
	"context"
	"maps"
	"slices"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// ClusterLock is a plan's lock in one of the clusters that it writes to.
type ClusterLock struct {
	// Cluster is the plan's name for the cluster, "" for that of the command line;
	// About says for people which it is.
	Cluster, About string
	// Place is where the lock is kept, and Holder who has it: nil for nobody.
	Place  ledger.Place
	Holder *ledger.Holder
	// Err is why nobody knows who has it.
	Err error
}

// Locks reads who has the locks of a plan: those of all clusters that its steps write
// to, sorted by name.
func Locks(ctx context.Context, c Config) ([]ClusterLock, error) {
	all, err := cluster.Open(c.Plan, c.Flags, c.UserAgent)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, step := range c.Plan.Steps {
		if step.Skip == "" && writes(step) {
			names[c.Plan.StepCluster(step)] = true
		}
	}
	var locks []ClusterLock
	for _, name := range slices.Sorted(maps.Keys(names)) {
		conn := all[name]
		l := ClusterLock{Cluster: name, About: conn.About()}
		api, err := conn.Connect(ctx)
		if err == nil {
			l.Place, err = placeOn(api, c.Plan)
		}
		if err == nil {
			l.Holder, err = l.Place.Locked(ctx)
		}
		l.Err = err
		locks = append(locks, l)
	}
	for _, conn := range all {
		conn.Close()
	}
	return locks, nil
}
