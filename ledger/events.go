package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// ReadEvents returns the events of a recorded run, one of which is on each line. A last line that was not written
// to its end is left out.
func ReadEvents(path string) ([]runner.Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var (
		events []runner.Event
		bad    error
	)
	lines := bufio.NewReader(f)
	for n, end := 1, error(nil); end == nil; n++ {
		var line []byte
		if line, end = lines.ReadBytes('\n'); end != nil && !errors.Is(end, io.EOF) {
			return nil, fmt.Errorf("reading %s: %w", path, end)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if bad != nil { // it was not the last
			return nil, bad
		}
		var e runner.Event
		if err := json.Unmarshal(line, &e); err != nil {
			bad = fmt.Errorf("%s:%d is not an event of a run: %w", path, n, err)
			continue
		}
		if bad = dated(path, n, e, events); bad != nil {
			return nil, bad
		}
		events = append(events, e)
	}
	switch {
	case len(events) == 0 && bad != nil:
		return nil, bad
	case len(events) == 0:
		return nil, fmt.Errorf("%s has no events", path)
	case events[0].Type != runner.TypePlan:
		return nil, fmt.Errorf("%s:1 is not the first event of a run, which is of type %s", path, runner.TypePlan)
	case events[0].Version > runner.EventVersion:
		return nil, fmt.Errorf("%s has events of version %d, and this kplan knows them up to %d", path, events[0].Version, runner.EventVersion)
	}
	return events, nil
}

// longestGap is how long a run may say nothing: a step's timeout is far below.
const longestGap = 7 * 24 * time.Hour

// dated returns what is wrong with the time of an event that comes after others: what
// shows a run counts the seconds between them.
func dated(path string, line int, e runner.Event, before []runner.Event) error {
	if e.Time.IsZero() {
		return fmt.Errorf("%s:%d has no time", path, line)
	}
	if len(before) == 0 {
		return nil
	}
	if last := before[len(before)-1].Time; e.Time.Sub(last).Abs() > longestGap {
		return fmt.Errorf("%s:%d is of %s, and the line before of %s", path, line, e.Time.Format(time.RFC3339), last.Format(time.RFC3339))
	}
	return nil
}
