package report

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/fleet"
)

// fleetDocument is the JSON report of a fleet's run. What is named run tells of this run
// alone; all else is the same on whatever engine the same rollout came to the same.
type fleetDocument struct {
	Version  int                 `json:"version"`
	Fleet    string              `json:"fleet"`
	Plan     string              `json:"plan"`
	Digest   string              `json:"digest"`
	State    fleet.State         `json:"state"`
	Stop     *fleet.Stop         `json:"stop,omitempty"`
	Counts   map[fleet.State]int `json:"counts"`
	Waves    []fleetJSONWave     `json:"waves"`
	Failures []fleetJSONGroup    `json:"failures"`
	Clusters []fleetJSONCluster  `json:"clusters"`
	Run      fleetJSONRun        `json:"run"`
}

type fleetJSONRun struct {
	ID             string    `json:"id"`
	Engine         string    `json:"engine"`
	By             string    `json:"by,omitempty"`
	Kplan          string    `json:"kplan,omitempty"`
	Round          int       `json:"round"`
	Started        time.Time `json:"started"`
	Ended          time.Time `json:"ended,omitzero"`
	ElapsedSeconds float64   `json:"elapsed_seconds"`
	Error          string    `json:"error,omitempty"`
}

type fleetJSONWave struct {
	fleet.WaveInfo
	State  fleet.WaveState     `json:"state"`
	Counts map[fleet.State]int `json:"counts"`
	Run    struct {
		ElapsedSeconds float64 `json:"elapsed_seconds"`
	} `json:"run"`
}

type fleetJSONGroup struct {
	Cause    *fleet.Cause `json:"cause"`
	Hint     string       `json:"hint,omitempty"`
	Clusters []string     `json:"clusters"`
}

type fleetJSONCluster struct {
	fleet.ClusterInfo
	State fleet.State    `json:"state"`
	Steps map[string]int `json:"steps,omitempty"`
	Cause *fleet.Cause   `json:"cause,omitempty"`
	Hint  string         `json:"hint,omitempty"`
	Run   fleetJSONOwn   `json:"run"`
}

// fleetJSONOwn tells of the run on one cluster.
type fleetJSONOwn struct {
	ID             string    `json:"id,omitempty"`
	Attempt        int       `json:"attempt"`
	Started        time.Time `json:"started,omitzero"`
	Ended          time.Time `json:"ended,omitzero"`
	ElapsedSeconds float64   `json:"elapsed_seconds,omitempty"`
	HeldSeconds    float64   `json:"held_seconds,omitempty"`
	Error          string    `json:"error,omitempty"`
}

func writeFleetJSON(w io.Writer, f *Fleet) error {
	e := f.First
	d := fleetDocument{
		Version: JSONVersion, Fleet: e.Fleet, Plan: e.Plan, Digest: e.Digest, State: f.State, Stop: f.Stop, Counts: f.Counts(),
		Waves: []fleetJSONWave{}, Failures: []fleetJSONGroup{}, Clusters: []fleetJSONCluster{},
		Run: fleetJSONRun{ID: e.Run, Engine: e.Engine, By: e.By, Kplan: f.Meta.Version, Round: f.Round, Started: f.Started, ElapsedSeconds: f.elapsed().Seconds(), Error: f.Error},
	}
	if f.ended() {
		d.Run.Ended = f.Last
	}
	for _, w := range f.Waves {
		wave := fleetJSONWave{WaveInfo: w.WaveInfo, State: w.State, Counts: w.Counts()}
		wave.Run.ElapsedSeconds = fleetview.WaveTook(f.Execution, w, f.Last).Seconds()
		d.Waves = append(d.Waves, wave)
	}
	for _, g := range f.Failures() {
		group := fleetJSONGroup{Cause: g.Cause, Hint: g.Clusters[0].Result.Hint}
		for _, c := range g.Clusters {
			group.Clusters = append(group.Clusters, c.Name)
		}
		d.Failures = append(d.Failures, group)
	}
	for _, c := range f.Clusters {
		d.Clusters = append(d.Clusters, f.jsonCluster(c))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil { // it is plain data: it cannot fail to encode
		return err
	}
	_, err := w.Write(data.Inert(b.Bytes()))
	return err
}

func (f *Fleet) jsonCluster(c *fleet.ClusterStatus) fleetJSONCluster {
	j := fleetJSONCluster{ClusterInfo: c.ClusterInfo, State: c.State, Run: fleetJSONOwn{Attempt: c.Attempt, ElapsedSeconds: fleetview.Took(c, f.Last).Seconds()}}
	if r := c.Result; r != nil {
		j.Steps, j.Cause, j.Hint = r.Steps, r.Cause, r.Hint
		j.Run.ID, j.Run.Started, j.Run.Ended, j.Run.HeldSeconds, j.Run.Error = r.Run, r.Started, r.Ended, r.HeldSeconds, r.Error
	}
	return j
}
