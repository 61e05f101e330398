package plan

import (
	"cmp"
	"reflect"
	"time"
)

// What holds for a step when neither it nor the plan's defaults say otherwise.
const (
	DefaultTimeout           = 10 * time.Minute
	DefaultInstallRetries    = 1
	DefaultRetryDelaySeconds = 10
	DefaultMaxDelaySeconds   = 300
	DefaultHoldTimeout       = 5 * time.Minute

	DefaultMisconfiguredTimeout = 30 * time.Second
)

// Duration is a time.Duration written as in Go: 90s, 10m, 1h30m.
type Duration time.Duration

// D returns the duration as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

// MarshalText writes the duration as a plan has it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.D().String()), nil }

// Hold says whether requests that a webhook cannot judge yet are held, and for
// how long at most.
type Hold struct {
	Hold                              bool
	HoldTimeout, MisconfiguredTimeout time.Duration
}

// StepCluster is the name of the cluster that a step works on; "" is that of the
// command line.
func (p *Plan) StepCluster(s Step) string { return cmp.Or(s.Cluster, p.Defaults.Cluster) }

// SameCluster reports whether two names mean one cluster as far as the plan says:
// it declares them alike, whatever their namespaces.
func (p *Plan) SameCluster(a, b string) bool {
	if a == b {
		return true
	}
	x, y := p.Clusters[a], p.Clusters[b]
	x.Namespace, y.Namespace = "", ""
	return reflect.DeepEqual(x, y)
}

// StepTimeout bounds a step, all its attempts together.
func (p *Plan) StepTimeout(s Step) time.Duration {
	return cmp.Or(s.Timeout, p.Defaults.Timeout, new(Duration(DefaultTimeout))).D()
}

// StepFailFast says whether a step fails as soon as what it waits for cannot get on.
func (p *Plan) StepFailFast(s Step) bool {
	return *cmp.Or(s.FailFast, p.Defaults.FailFast, new(true))
}

// StepRetry says how a step is tried again. Each field is that of the step, else
// that of the plan's defaults, else the constants above; none is nil.
func (p *Plan) StepRetry(s Step) Retry {
	r := Retry{
		InstallRetries: DefaultInstallRetries, RetryDelaySeconds: new(float64(DefaultRetryDelaySeconds)), Multiplier: 1,
		MaxDelaySeconds: DefaultMaxDelaySeconds, Jitter: new(0.0),
	}
	return *s.Retry.Or(p.Defaults.Retry).Or(&r)
}

// Or returns the fields of r, and where it has none those of base.
func (r *Retry) Or(base *Retry) *Retry {
	if r == nil || base == nil {
		return cmp.Or(r, base)
	}
	out := *base
	out.InstallRetries = cmp.Or(r.InstallRetries, base.InstallRetries)
	out.RetryDelaySeconds = cmp.Or(r.RetryDelaySeconds, base.RetryDelaySeconds)
	out.Multiplier = cmp.Or(r.Multiplier, base.Multiplier)
	out.MaxDelaySeconds = cmp.Or(r.MaxDelaySeconds, base.MaxDelaySeconds)
	out.Jitter = cmp.Or(r.Jitter, base.Jitter)
	if r.On != nil {
		out.On = r.On
	}
	return &out
}

// StepWebhooks says how a step's requests are held, field by field as StepRetry.
func (p *Plan) StepWebhooks(s Step) Hold {
	w := s.Webhooks.Or(p.Defaults.Webhooks).Or(&Webhooks{
		Hold: new(true), HoldTimeout: new(Duration(DefaultHoldTimeout)), MisconfiguredTimeout: new(Duration(DefaultMisconfiguredTimeout)),
	})
	return Hold{Hold: *w.Hold, HoldTimeout: w.HoldTimeout.D(), MisconfiguredTimeout: w.MisconfiguredTimeout.D()}
}

// Or returns the fields of w, and where it has none those of base.
func (w *Webhooks) Or(base *Webhooks) *Webhooks {
	if w == nil || base == nil {
		return cmp.Or(w, base)
	}
	return &Webhooks{
		Hold: cmp.Or(w.Hold, base.Hold), HoldTimeout: cmp.Or(w.HoldTimeout, base.HoldTimeout),
		MisconfiguredTimeout: cmp.Or(w.MisconfiguredTimeout, base.MisconfiguredTimeout),
	}
}

// ReleaseName is the release that a helm step installs: the step's name unless
// the step gives one; "" for steps of other kinds.
func (s Step) ReleaseName() string {
	if s.Helm == nil {
		return ""
	}
	return cmp.Or(s.Helm.Release, s.Name)
}

// Namespace returns the namespace that the step names, in which its outputs are read
// too; "" when it names none, which means that of the kubeconfig context.
func (s Step) Namespace() string {
	switch s.Kind() {
	case KindHelm:
		return s.Helm.Namespace
	case KindApply:
		return s.Apply.Namespace
	case KindWait:
		return s.Wait.Namespace
	case KindWebhook:
		return s.Webhook.Namespace
	case KindDelete:
		return s.Delete.Namespace
	case KindInclude:
	}
	return ""
}
