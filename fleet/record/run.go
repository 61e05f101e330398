package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/kplan-dev/kplan/fleet"
)

// Run is the folder of one run.
type Run struct {
	ID      string
	Dir     string
	Rollout *fleet.Rollout
	Inputs  Inputs
}

// Events returns the events of the run. A last line that was not written to its end is left
// out.
func (r *Run) Events() ([]fleet.Event, error) {
	var all []fleet.Event
	err := r.each(func(e fleet.Event) { all = append(all, e) })
	return all, err
}

// Execution folds the events of the run.
func (r *Run) Execution() (*fleet.Execution, error) {
	x := &fleet.Execution{}
	return x, r.each(x.Apply)
}

// each calls do with each event of the run.
func (r *Run) each(do func(fleet.Event)) error {
	path := filepath.Join(r.Dir, eventsFile)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = read(file, path, do)
	return err
}

// read calls do with each whole event of a file, and returns where the last of these ends.
func read(from io.Reader, path string, do func(fleet.Event)) (end int64, err error) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for n, seq := 1, 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what is not whole is not there
			break
		}
		if err != nil {
			return end, fmt.Errorf("reading %s: %w", path, err)
		}
		var e fleet.Event
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil || e.Seq != seq+1 {
			return end, fmt.Errorf("%s:%d is not event %d of a fleet's run", path, n, seq+1)
		}
		if seq++; seq == 1 && (e.Type != fleet.TypeFleet || e.Version > fleet.EventVersion) {
			return end, fmt.Errorf("%s:1 is not the first event of a fleet's run, of version %d", path, fleet.EventVersion)
		}
		end += int64(len(line))
		do(e)
	}
	return end, nil
}

// ClusterPath is the file with the events of a cluster's latest run.
func (r *Run) ClusterPath(cluster string) string {
	return filepath.Join(r.Dir, clustersDir, FileName(cluster)+".jsonl")
}

// FileName is a file's name for a cluster's, which has a slash; ClusterName is its reverse.
func FileName(cluster string) string { return url.QueryEscape(cluster) }

// ClusterName is the cluster whose FileName that is.
func ClusterName(file string) string {
	name, err := url.QueryUnescape(file)
	if err != nil {
		return file
	}
	return name
}

// Control reads what people ordered.
func (r *Run) Control() (fleet.Control, error) {
	var c fleet.Control
	err := r.readJSON(controlFile, &c)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	return c, err
}

// Change changes what people ordered: change gets it as it is now. Changes of several
// processes are made one after another.
func (r *Run) Change(change func(*fleet.Control)) (fleet.Control, error) {
	lock := flock.New(filepath.Join(r.Dir, controlFile+".lock"))
	if err := lock.Lock(); err != nil {
		return fleet.Control{}, err
	}
	defer func() { _ = lock.Close() }()
	c, err := r.Control()
	if err != nil {
		return c, err
	}
	change(&c)
	return c, r.writeJSON(controlFile, c)
}

func (r *Run) readJSON(name string, into any) error {
	path := filepath.Join(r.Dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON puts a file into its place, whole or not at all.
func (r *Run) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(r.Dir, name+".")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(r.Dir, name))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
