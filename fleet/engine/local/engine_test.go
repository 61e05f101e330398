package local_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/local"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/ledger"
)

// members is what clusters do, by their names; others succeed at once.
type members map[string]func(ctx context.Context, r member.Run) *fleet.Result

func (m members) Do(ctx context.Context, r member.Run) *fleet.Result {
	if do := m[r.Cluster.Name]; do != nil {
		return do(ctx, r)
	}
	return &fleet.Result{State: fleet.Succeeded}
}

// engineFor runs clusters a, b, c and d, two at a time.
func engineFor(t *testing.T, m members) (*local.Engine, *[]fleet.Event) {
	t.Helper()
	r := &fleet.Rollout{Version: fleet.RolloutVersion, Fleet: "edge", Plan: "eso", Engine: "local", Waves: []fleet.WaveInfo{{Name: "all", Parallel: 2, Clusters: 4, MaxFailures: 4}}}
	for _, name := range []string{"a", "b", "c", "d"} {
		r.Clusters = append(r.Clusters, fleet.Cluster{Name: name, Wave: "all"})
	}
	r.Seal()
	run, err := record.FolderOf(t.TempDir()).Begin(ledger.NewRunID(), r, record.Inputs{})
	require.NoError(t, err)
	told := &[]fleet.Event{}
	return &local.Engine{Record: run, Members: m, By: "me@here", Observe: func(e fleet.Event) { *told = append(*told, e) }}, told
}

// stops waits until it is stopped.
func stops(ctx context.Context, _ member.Run) *fleet.Result {
	<-ctx.Done()
	return &fleet.Result{State: fleet.Cancelled, Error: context.Cause(ctx).Error()}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	engine, told := engineFor(t, members{"a": stops, "b": func(ctx context.Context, r member.Run) *fleet.Result {
		cancel(errors.New("^C"))
		return stops(ctx, r)
	}})

	x, err := engine.Run(ctx)

	require.NoError(t, err)
	require.Equal(t, map[fleet.State]int{fleet.Cancelled: 2, fleet.NotStarted: 2}, x.Counts())
	require.Equal(t, fleet.StopInterrupted, x.Stop.Kind)
	require.Equal(t, fleet.Cancelled, x.State)
	require.Equal(t, "^C", x.Cluster("a").Result.Error)
	last := (*told)[len(*told)-1]
	require.Equal(t, fleet.TypeDone, last.Type)
	require.Equal(t, len(*told), last.Seq, "numbers have no gaps")

	// Another round does what is unfinished, and tells who shows it what was before.
	engine.Members = members{}
	*told = nil
	x, err = engine.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[fleet.State]int{fleet.Succeeded: 4}, x.Counts())
	require.Equal(t, 2, x.Round)
	require.Equal(t, 2, x.Cluster("a").Attempt)
	require.Equal(t, 1, x.Cluster("c").Attempt)
	for i, e := range *told {
		require.Equal(t, i+1, e.Seq)
	}
}

func TestAbortNow(t *testing.T) {
	var engine *local.Engine
	engine, _ = engineFor(t, members{"a": stops, "b": func(ctx context.Context, r member.Run) *fleet.Result {
		_, err := engine.Record.Change(func(c *fleet.Control) { c.Aborted, c.Now, c.By = true, true, "you@there" })
		if err != nil {
			return &fleet.Result{State: fleet.Failed, Error: err.Error()}
		}
		return stops(ctx, r)
	}})

	x, err := engine.Run(t.Context())

	require.NoError(t, err)
	require.Equal(t, map[fleet.State]int{fleet.Cancelled: 2, fleet.NotStarted: 2}, x.Counts())
	require.Equal(t, "the run of the fleet was aborted by you@there", x.Cluster("a").Result.Error)
	require.Equal(t, &fleet.Stop{Kind: fleet.StopAborted, By: "you@there"}, x.Stop)
}

// A cluster that does not stop is given up when the run is aborted.
func TestAbandoned(t *testing.T) {
	abort, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	engine, _ := engineFor(t, members{"a": func(context.Context, member.Run) *fleet.Result {
		close(abort)
		<-end
		return &fleet.Result{State: fleet.Succeeded}
	}, "b": stops})
	engine.Abort = abort

	x, err := engine.Run(t.Context())

	require.NoError(t, err)
	require.Equal(t, map[fleet.State]int{fleet.Cancelled: 2, fleet.NotStarted: 2}, x.Counts())
	require.Equal(t, "aborted at work", x.Cluster("a").Result.Error)
}

// A panic is the failure of one cluster.
func TestPanic(t *testing.T) {
	engine, _ := engineFor(t, members{"b": func(context.Context, member.Run) *fleet.Result { panic("oh") }})

	x, err := engine.Run(t.Context())

	require.NoError(t, err)
	require.Equal(t, map[fleet.State]int{fleet.Succeeded: 3, fleet.Failed: 1}, x.Counts())
	require.Equal(t, "panic: oh", x.Cluster("b").Result.Error)
}

// A run's folder goes on with its own rollout only.
func TestAnotherRollout(t *testing.T) {
	engine, _ := engineFor(t, members{})
	_, err := engine.Run(t.Context())
	require.NoError(t, err)
	engine.Record.Rollout.Plan = "other"
	engine.Record.Rollout.Seal()

	_, err = engine.Run(t.Context())

	mismatch := (*local.MismatchError)(nil)
	require.ErrorAs(t, err, &mismatch)
}
