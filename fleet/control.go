package fleet

import "slices"

// Control is what people have ordered of a run. It is kept where all who work on the run
// read it: a file of the run's folder, or a ConfigMap.
type Control struct {
	// Paused says that nothing new starts until somebody resumes.
	Paused bool `json:"paused,omitempty"`
	// Aborted says that nothing new starts any more, and Now that what is at work is stopped.
	Aborted bool `json:"aborted,omitempty"`
	Now     bool `json:"now,omitempty"`
	// Approved are the waves that may begin.
	Approved []string `json:"approved,omitempty"`
	// Stop is why the driver lets nothing new start.
	Stop *Stop `json:"stop,omitempty"`
	// By is who gave the last order, as USER@HOST.
	By string `json:"by,omitempty"`
}

// Approves reports whether a wave that wants approval may begin.
func (c Control) Approves(wave string) bool { return slices.Contains(c.Approved, wave) }

// Approve lets a wave begin.
func (c *Control) Approve(wave string) {
	if !c.Approves(wave) {
		c.Approved = append(c.Approved, wave)
	}
}

// Equal reports whether both say the same.
func (c Control) Equal(o Control) bool {
	return c.Paused == o.Paused && c.Aborted == o.Aborted && c.Now == o.Now && slices.Equal(c.Approved, o.Approved) &&
		(c.Stop == nil) == (o.Stop == nil)
}
