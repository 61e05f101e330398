package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/kplan-dev/kplan/runner"
)

// Journal writes the events of a run to a file as they come: it is an Observer that
// never waits for the disk. What a run did is on the disk a moment after a step has
// changed its state, so that it is known also when the machine fails.
type Journal struct {
	file  *os.File
	queue *queue
	done  chan struct{} // closed by the writing goroutine when it ends
	err   error         // the first one; valid after done
}

var _ runner.Observer = (*Journal)(nil)

// newJournal starts to write to a file; Close ends that.
func newJournal(file *os.File) *Journal {
	j := &Journal{file: file, queue: newQueue(), done: make(chan struct{})}
	go j.write()
	return j
}

// Observe implements runner.Observer.
func (j *Journal) Observe(e runner.Event) { j.queue.put(e) }

// Close waits until all is written, and returns the first error. After one nothing
// more was written.
func (j *Journal) Close() error {
	j.queue.end()
	<-j.done
	return j.err
}

// write writes until the queue ends.
func (j *Journal) write() {
	defer close(j.done)
	out := bufio.NewWriter(j.file)
	for {
		events, ended := j.queue.take()
		if j.err == nil {
			j.err = j.lines(out, events)
		}
		if ended {
			if err := j.file.Close(); j.err == nil {
				j.err = err
			}
			return
		}
	}
}

// lines writes events, and has the disk keep them where they matter.
func (j *Journal) lines(out *bufio.Writer, events []runner.Event) error {
	keep := false
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		keep = keep || e.Type == runner.TypeState || e.Type == runner.TypeDone || e.Type == runner.TypePlan
		_, _ = out.Write(append(line, '\n')) // Flush returns its error
	}
	if err := out.Flush(); err != nil || !keep {
		return err
	}
	if err := j.file.Sync(); !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) { // not all file systems can
		return err
	}
	return nil
}

// queue carries events from the goroutine of a run to that of a writer. It has no
// bound: no event may be lost, and a run has few.
type queue struct {
	mu     sync.Mutex
	wake   chan struct{} // has room for one; put and end write to it
	events []runner.Event
	ended  bool
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) put(e runner.Event) { q.add(false, e) }

// end says that no event follows.
func (q *queue) end() { q.add(true) }

func (q *queue) add(end bool, events ...runner.Event) {
	q.mu.Lock()
	q.events, q.ended = append(q.events, events...), q.ended || end
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// take waits for events, and returns them and whether none follows.
func (q *queue) take() (events []runner.Event, ended bool) {
	<-q.wake
	return q.now()
}

// now returns what came since the last call, and whether none follows.
func (q *queue) now() (events []runner.Event, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events, q.events = q.events, nil
	return events, q.ended
}
