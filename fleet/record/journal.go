package record

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// Journal writes the events of a fleet's run. An event is in the file when Write returns, so
// that the end of the process loses none; it is on the disk a moment later.
type Journal struct {
	file  *os.File
	dirty chan struct{} // has room for one; Write asks for a sync by it
	done  chan struct{} // closed by the syncing goroutine when it ends

	mu  sync.Mutex
	err error // the first one
}

// Journal opens the run's events for writing; those that there are go to each before. What
// was not written to its end is cut off. Close ends it.
func (r *Run) Journal(each func(fleet.Event)) (*Journal, error) {
	path := filepath.Join(r.Dir, eventsFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	end, err := read(file, path, each)
	if err == nil {
		err = file.Truncate(end)
	}
	if err == nil {
		_, err = file.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	j := &Journal{file: file, dirty: make(chan struct{}, 1), done: make(chan struct{})}
	go j.sync()
	return j, nil
}

// Write writes an event. It is called by one goroutine.
func (j *Journal) Write(e fleet.Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	j.note(err)
	select {
	case j.dirty <- struct{}{}:
	default: // it will look anyway
	}
}

func (j *Journal) note(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
	}
}

// Close waits until all is on the disk, and returns the first error.
func (j *Journal) Close() error {
	close(j.dirty)
	<-j.done
	j.note(j.file.Close())
	return j.err
}

// sync has the disk keep what was written, until Close.
func (j *Journal) sync() {
	defer close(j.done)
	for range j.dirty {
		err := j.file.Sync()
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) { // not all file systems can
			err = nil
		}
		j.note(err)
	}
}

// Cluster writes the events of a run on a cluster: it is an Observer. The first error is told
// by Close.
type Cluster struct {
	file *os.File
	err  error
}

var _ runner.Observer = (*Cluster)(nil)

// Cluster begins the file of a cluster's run. That of an attempt before is kept beside it.
func (r *Run) Cluster(name string, attempt int) (*Cluster, error) {
	path := r.ClusterPath(name)
	if attempt > 1 {
		_ = os.Rename(path, path+"."+strconv.Itoa(attempt-1)) // there is none if it never began
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &Cluster{file: file}, nil
}

// Observe implements runner.Observer.
func (c *Cluster) Observe(e runner.Event) {
	if c.err != nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = c.file.Write(append(line, '\n'))
	}
	c.err = err
}

// Close ends the file.
func (c *Cluster) Close() error { return errors.Join(c.err, c.file.Close()) }
