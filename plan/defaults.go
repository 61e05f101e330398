package plan

import "time"

// What holds for a step when neither it nor the plan's defaults say otherwise.
const (
	DefaultTimeout           = 10 * time.Minute
	DefaultInstallRetries    = 1
	DefaultRetryDelaySeconds = 10
	DefaultHoldTimeout       = 5 * time.Minute

	DefaultMisconfiguredTimeout = 30 * time.Second
)

// Hold says whether requests that a webhook cannot judge yet are held, and for
// how long at most.
type Hold struct {
	Hold                              bool
	HoldTimeout, MisconfiguredTimeout time.Duration
}

// StepTimeout bounds a step, all its attempts together.
func (p *Plan) StepTimeout(s Step) time.Duration {
	for _, d := range []*Duration{s.Timeout, p.Defaults.Timeout} {
		if d != nil {
			return d.D()
		}
	}
	return DefaultTimeout
}

// StepRetry says how a step is tried again. Each field is that of the step, else
// that of the plan's defaults, else the constants above.
func (p *Plan) StepRetry(s Step) Retry {
	r := Retry{InstallRetries: DefaultInstallRetries, RetryDelaySeconds: DefaultRetryDelaySeconds}
	for _, over := range []*Retry{p.Defaults.Retry, s.Retry} {
		if over == nil {
			continue
		}
		if over.InstallRetries != 0 {
			r.InstallRetries = over.InstallRetries
		}
		if over.RetryDelaySeconds != 0 {
			r.RetryDelaySeconds = over.RetryDelaySeconds
		}
	}
	return r
}

// StepWebhooks says how a step's requests are held, field by field as StepRetry.
func (p *Plan) StepWebhooks(s Step) Hold {
	h := Hold{Hold: true, HoldTimeout: DefaultHoldTimeout, MisconfiguredTimeout: DefaultMisconfiguredTimeout}
	for _, over := range []*Webhooks{p.Defaults.Webhooks, s.Webhooks} {
		if over == nil {
			continue
		}
		if over.Hold != nil {
			h.Hold = *over.Hold
		}
		if over.HoldTimeout != nil {
			h.HoldTimeout = over.HoldTimeout.D()
		}
		if over.MisconfiguredTimeout != nil {
			h.MisconfiguredTimeout = over.MisconfiguredTimeout.D()
		}
	}
	return h
}

// ReleaseName is the release that a helm step installs: the step's name unless
// the step gives one; "" for steps of other kinds.
func (s Step) ReleaseName() string {
	switch {
	case s.Helm == nil:
		return ""
	case s.Helm.Release != "":
		return s.Helm.Release
	}
	return s.Name
}
