//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/local"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/ledger"
)

// orderedRun is a run of a fleet of two clusters beside a fleet file, of which the first events
// happened.
func orderedRun(t *testing.T, then ...fleet.Event) (file string, run *record.Run) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "edge.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: kplan.dev/v1alpha1
kind: Fleet
metadata: {name: edge}
plan: {file: plan.yaml}
inventory: [{contexts: {}}]
waves: [{name: all}]
`), 0o600))
	r := &fleet.Rollout{Version: fleet.RolloutVersion, Fleet: "edge", Plan: "p", Engine: "local", Waves: []fleet.WaveInfo{{Name: "all", Parallel: 1, Clusters: 2}}}
	r.Clusters = []fleet.Cluster{{Name: "a", Wave: "all"}, {Name: "b", Wave: "all"}}
	r.Seal()
	run, err := record.FolderOf(dir).Begin(ledger.NewRunID(), r, record.Inputs{})
	require.NoError(t, err)
	journal, err := run.Journal(func(fleet.Event) {})
	require.NoError(t, err)
	began := []fleet.Event{local.First(r, run.ID, "me@here", "test"), {Type: fleet.TypeWave, Wave: "all", WaveState: fleet.WaveRunning}, {Type: fleet.TypeCluster, Cluster: "a", Wave: "all", State: fleet.Running}}
	for i, e := range append(began, then...) {
		e.Seq, e.Time = i+1, time.Now().UTC()
		journal.Write(e)
	}
	require.NoError(t, journal.Close())
	return file, run
}

// holdRun holds the lock of the fleet as who runs it does.
func holdRun(t *testing.T, file string, run *record.Run) {
	t.Helper()
	lock, err := record.FolderOf(filepath.Dir(file)).Lock("edge", record.Holder{Run: run.ID, By: "me@here", PID: os.Getpid()})
	require.NoError(t, err)
	t.Cleanup(lock.Release)
}

// A run that starts nothing any more does not go on by resume, and says so.
func TestFleetResumeTooEarly(t *testing.T) {
	t.Parallel()
	file, run := orderedRun(t, fleet.Event{Type: fleet.TypeStop, Reason: &fleet.Stop{Kind: fleet.StopAborted, By: "me@here"}})
	holdRun(t, file, run)
	cmd := command(t, "fleet", "resume", "-f", file)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 2, cmd.ProcessState.ExitCode(), string(out))
	require.Contains(t, string(out), "starts nothing any more: aborted by me@here")
}

// Status says that a run is paused, and by whom.
func TestFleetStatusPaused(t *testing.T) {
	t.Parallel()
	file, run := orderedRun(t, fleet.Event{Type: fleet.TypeControl, Control: &fleet.Control{Paused: true, By: "me@here"}})
	holdRun(t, file, run)
	out, err := command(t, "fleet", "status", "-f", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "nothing new starts: paused by me@here\n")
}

// Commands that are told name the fleet file when it is not the default one.
func TestFleetCommandsNameTheFile(t *testing.T) {
	t.Parallel()
	file, run := orderedRun(t)
	out, err := command(t, "fleet", "pause", "-f", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "nobody runs it now: kplan fleet resume -f "+file+" "+run.ID+" does\n")

	cmd := command(t, "fleet", "status", "-f", "edge.yaml", "other")
	cmd.Dir = filepath.Dir(file)
	out, err = cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "hint: there is: "+run.ID)
}
