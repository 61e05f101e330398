package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/internal/labtest/thousand"
)

// The display of a fleet that runs: its keys give orders, one cluster's own run is shown while
// it goes on, and reports are written at the end.
func TestFleetDisplayRuns(t *testing.T) {
	b := newFleetBed(t, 8, "waves: [{name: canary, parallel: 1, select: cluster.name < 'c0003'}, {name: rest, parallel: 3, approve: true, max_failures: 1}]")
	gate := make(chan struct{})
	b.Clusters[0].Script(thousand.Gate("/configmaps/judged", gate))
	b.Clusters[5].Script(thousand.Forbid("/configmaps/judged"))
	dir := filepath.Dir(b.file)
	run := fmt.Sprintf("sh -c 'cd %s && exec kplan fleet run fleet.yaml --report html=report --report junit=fleet.xml'", dir)
	s := newTerminal(t, 80, 24, fmt.Sprintf(guardedScript, run), "KUBECONFIG="+b.lab.Kubeconfig)
	s.shows("[8 clusters in 2 waves]", "canary", "running")
	s.press("Down", "Down", "Enter")
	s.shows("c0001: thousand", "running   judged")
	s.press("p")
	s.shows("display paused")
	s.press("p", "2")
	s.shows("[2 timeline]")
	s.press("1")
	close(gate)
	s.shows("succeeded judged", "unchanged ready")
	s.press("Escape")
	s.shows("wave rest waits until somebody approves it: a does", "✔ canary succeeded")
	s.press("p")
	s.shows("paused by ", "p resume")
	s.press("p")
	s.until("it goes on", func(string) bool { return !b.status().Control.Paused })
	s.shows("wave rest waits until")
	s.press("a")
	s.shows("approve wave rest? 6 clusters begin  [y/n]")
	s.press("y")
	screen := s.restored(1)
	require.Contains(t, screen, "fleet thousand failed in ")
	require.Contains(t, screen, "1 cluster: rights are missing at step judged")
	require.Contains(t, screen, "kplan fleet resume ")
	require.Equal(t, 7, b.status().Counts[fleet.Succeeded])
	for file, has := range map[string]string{"report/index.html": `href="clusters/c0001.html"`, "report/clusters/c0001.html": "fleet thousand", "fleet.xml": `name="judged"`} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Contains(t, string(text), has)
	}

	b.Clusters[5].Script(nil)
	s = newTerminal(t, 80, 24, fmt.Sprintf(guardedScript, fmt.Sprintf("sh -c 'cd %s && exec kplan fleet resume --stay'", dir)), "KUBECONFIG="+b.lab.Kubeconfig)
	s.shows("round 2", "8/8", "✔ succeeded")
	s.press("q")
	require.Contains(t, s.restored(0), "fleet thousand succeeded in ")
}
