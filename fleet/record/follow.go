package record

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kplan-dev/kplan/fleet"
)

// followEvery is how often a run's file is looked at for new events.
const followEvery = 300 * time.Millisecond

// Follow calls do with each event of the run, those that come included, until the run is over
// or nobody runs it any more, which active tells. It returns how the run stands then.
func (r *Run) Follow(ctx context.Context, do func(fleet.Event), active func() bool) (*fleet.Execution, error) {
	path := filepath.Join(r.Dir, eventsFile)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	x := &fleet.Execution{}
	lines, last := bufio.NewReaderSize(file, 64<<10), fleet.Event{}
	var part []byte
	for {
		live := active() // before the look: what was written before that is seen
		for {
			line, err := lines.ReadBytes('\n')
			if part = append(part, line...); err != nil { // the rest of the line is yet to come
				break
			}
			var e fleet.Event
			if err := json.Unmarshal(bytes.TrimSpace(part), &e); err != nil {
				return x, fmt.Errorf("%s is not the events of a fleet's run: %w", path, err)
			}
			part, last = part[:0], e
			x.Apply(e)
			do(e)
		}
		if !live || last.Type == fleet.TypeDone {
			return x, nil
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return x, context.Cause(ctx)
		}
	}
}
