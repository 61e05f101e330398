package local

import (
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/record"
)

// control follows what people order by the run's folder.
type control struct {
	run  *record.Run
	last fleet.Control
}

func newControl(run *record.Run) *control { return &control{run: run} }

// reset withdraws orders that were for an earlier round: a run that goes on is neither paused
// nor aborted. What was approved stays so.
func (c *control) reset() (err error) {
	c.last, err = c.run.Change(func(now *fleet.Control) {
		now.Paused, now.Aborted, now.Now, now.Stop = false, false, false, nil
	})
	return err
}

// changed returns what holds now, or nil when that is what held before. What cannot be read
// is no news.
func (c *control) changed() *fleet.Control {
	now, err := c.run.Control()
	if err != nil || now.Equal(c.last) {
		return nil
	}
	c.last = now
	return &now
}
