// Package record keeps what is known of the runs of fleets in files beside the fleet file: for
// each run its rollout, its events, those of each cluster, and what people ordered of it.
//
// It runs nothing: the local engine writes, and whoever wants to know reads.
package record

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/fleet"
)

// Names of files of a run.
const (
	rolloutFile = "rollout.json"
	eventsFile  = "events.jsonl"
	controlFile = "control.json"
	inputsFile  = "inputs.json"
	clustersDir = "clusters"
	// runsKept is how many runs of a folder's fleets are kept.
	runsKept = 30
)

// isRun is what ledger.NewRunID makes.
var isRun = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-f]+$`)

// Folder has the runs of the fleets whose files are beside it.
type Folder string

// FolderOf is the folder of fleets whose files are in dir.
func FolderOf(dir string) Folder { return Folder(filepath.Join(dir, ".kplan", "fleets")) }

// Inputs are what a run was given beside its rollout.
type Inputs struct {
	// Fleet is the path of the fleet file, "" of a rollout that was given as a file, and Plan
	// that of the plan; both are absolute.
	Fleet string `json:"fleet,omitempty"`
	Plan  string `json:"plan"`
	// Given tells what else gave variables values from all else; it does not tell what that is.
	Given string `json:"given,omitempty"`
	// Files are the SHA-256 of the files that the run is made of, in hex, by path: who resumes
	// it can say which has changed.
	Files map[string]string `json:"files,omitempty"`
}

// Summary says in short how a run stands.
type Summary struct {
	Run    string `json:"run"`
	Fleet  string `json:"fleet"`
	Plan   string `json:"plan"`
	Engine string `json:"engine"`
	Digest string `json:"digest"`
	By     string `json:"by,omitempty"`
	// Started is when it began, and Last when it was last heard of.
	Started time.Time `json:"started"`
	Last    time.Time `json:"last"`
	// State is running for a run that is at work, and for one that was killed.
	State  fleet.State         `json:"state"`
	Counts map[fleet.State]int `json:"counts"`
}

// Unfinished reports whether the run has something left to do.
func (s Summary) Unfinished() bool {
	for state, n := range s.Counts {
		if n > 0 && !state.Good() {
			return true
		}
	}
	return s.State == fleet.Running
}

// Begin makes the folder of a run, and removes the oldest ones.
func (f Folder) Begin(run string, rollout *fleet.Rollout, in Inputs) (*Run, error) {
	if err := f.make(); err != nil {
		return nil, err
	}
	r := &Run{ID: run, Dir: filepath.Join(string(f), run), Rollout: rollout, Inputs: in}
	if err := os.Mkdir(r.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(r.Dir, clustersDir), 0o700); err != nil {
		return nil, err
	}
	err := errors.Join(r.writeJSON(rolloutFile, rollout), r.writeJSON(inputsFile, in), r.writeJSON(controlFile, fleet.Control{}))
	if err != nil {
		return nil, err
	}
	if runs, err := f.names(); err == nil {
		for _, old := range runs[min(len(runs), runsKept):] {
			_ = os.RemoveAll(filepath.Join(string(f), old)) // it only takes room
		}
	}
	return r, nil
}

// make makes the folder, which version control passes over.
func (f Folder) make() error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	ignore := filepath.Join(filepath.Dir(string(f)), ".gitignore")
	if _, err := os.Lstat(ignore); err == nil {
		return nil
	}
	return os.WriteFile(ignore, []byte("*\n"), 0o600)
}

// Open opens the folder of a run.
func (f Folder) Open(run string) (*Run, error) {
	if !isRun.MatchString(run) {
		return nil, fmt.Errorf("%q is no run of a fleet: %w", run, fs.ErrNotExist)
	}
	r := &Run{ID: run, Dir: filepath.Join(string(f), run)}
	if err := r.readJSON(rolloutFile, &r.Rollout); err != nil {
		return nil, err
	}
	if !r.Rollout.Sealed() {
		return nil, fmt.Errorf("%s was changed: it does not have its digest any more", filepath.Join(r.Dir, rolloutFile))
	}
	return r, r.readJSON(inputsFile, &r.Inputs)
}

// List returns the runs of a fleet, newest first; of all fleets for "". What cannot be read is
// passed over, and told of in the error.
func (f Folder) List(name string) ([]Summary, error) {
	runs, err := f.names()
	errs := []error{err}
	var all []Summary
	for _, run := range runs {
		s, err := f.summary(run)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if name == "" || s.Fleet == name {
			all = append(all, s)
		}
	}
	return all, errors.Join(errs...)
}

// names are the runs, newest first.
func (f Folder) names() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var runs []string
	for _, e := range entries {
		if e.IsDir() && isRun.MatchString(e.Name()) {
			runs = append(runs, e.Name())
		}
	}
	slices.SortFunc(runs, func(a, b string) int { return cmp.Compare(b, a) })
	return runs, err
}

// summary says how a run stands. Of one that is over only the first and the last event are
// read.
func (f Folder) summary(run string) (Summary, error) {
	path := filepath.Join(string(f), run, eventsFile)
	first, last, err := ends(path)
	if err != nil {
		return Summary{}, err
	}
	s := Summary{
		Run: run, Fleet: first.Fleet, Plan: first.Plan, Engine: first.Engine, Digest: first.Digest, By: first.By,
		Started: first.Time, Last: last.Time, State: last.RunState, Counts: last.Counts,
	}
	if last.Type == fleet.TypeDone {
		return s, nil
	}
	x, err := (&Run{ID: run, Dir: filepath.Dir(path)}).Execution()
	if err != nil {
		return Summary{}, err
	}
	s.State, s.Counts = x.State, x.Counts()
	return s, nil
}

// ends reads the first and the last event of a file.
func ends(path string) (first, last fleet.Event, err error) {
	file, err := os.Open(path)
	if err != nil {
		return first, last, err
	}
	defer file.Close()
	line, err := bufio.NewReader(file).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	if err != nil || first.Type != fleet.TypeFleet {
		return first, last, fmt.Errorf("%s has no events of a fleet's run", path)
	}
	const most = 16 << 10 // a last event is short
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, 2)
	} else {
		_, _ = file.Seek(0, 0)
	}
	last = first
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // what is not whole is not there
			return first, last, nil
		}
		var e fleet.Event
		if json.Unmarshal(line, &e) == nil && e.Seq > 0 {
			last = e
		}
	}
}
