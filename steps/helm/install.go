package helm

import (
	"maps"
	"reflect"
	"strconv"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// install installs or upgrades, or finds that there is nothing to do.
func (o *operation) install() (*engine.Release, error) {
	unchanged, err := o.unchanged()
	if err != nil {
		return nil, err
	}
	if unchanged && o.options.ForceUpgrade && !o.recorded.Load() {
		unchanged = false
		o.reporter.Report(runner.Report{Type: runner.TypeLog, Message: "the chart and its values did not change; they are rendered and sent by force"})
	}
	o.resend = unchanged && o.last.Info.Status == engine.StatusFailed
	again := unchanged && o.last.Info.Status == engine.StatusDeployed
	if !again && !o.resend {
		if err := o.fits(); err != nil {
			return nil, err
		}
	}
	if err := o.sendCRDs(again); err != nil {
		return nil, err
	}
	switch {
	case o.isFirst():
		return o.first()
	case again:
		return o.again()
	default:
		return o.upgrade()
	}
}

// isFirst reports whether the release is installed, and not upgraded.
func (o *operation) isFirst() bool {
	return o.last == nil || o.last.Info.Status == engine.StatusUninstalled || len(o.replaces.revisions) > 0
}

// unchanged reports whether the newest revision is what another one would be. When it is
// deployed it is not sent again: that would make a new revision for nothing, and charts
// which make a certificate on each render would break their running webhook with it. When
// it failed, it is sent again as it was rendered then, for the same reason: what it
// renders to now does not matter.
func (o *operation) unchanged() (bool, error) {
	if o.last == nil || !o.sameInputs() {
		return false, nil
	}
	if o.last.Info.Status != engine.StatusDeployed {
		return true, nil
	}
	return o.rendersTheSame()
}

// sameInputs reports whether the newest revision was made from the same chart, values and
// labels.
func (o *operation) sameInputs() bool {
	return o.last.Labels[inputsLabel] == o.inputs &&
		o.last.Chart != nil && o.last.Chart.Metadata != nil &&
		o.last.Chart.Metadata.Version == o.chart.Metadata.Version &&
		o.sameGiven() && o.sameLabels()
}

// sameGiven reports whether the newest revision has the values that another one would be
// recorded with. Where they are merged Helm drops nulls at one upgrade and records them at
// the next: they count for what they render to.
func (o *operation) sameGiven() bool {
	if o.reuse() == engine.ResetValues {
		return sameValues(o.last.Config, o.values)
	}
	return sameValues(withoutNulls(o.last.Config), withoutNulls(o.given()))
}

// withoutNulls is a copy of values without those that are null.
func withoutNulls(values map[string]any) map[string]any {
	out := make(map[string]any, len(values))
	for k, v := range values {
		if m, ok := v.(map[string]any); ok {
			out[k] = withoutNulls(m)
		} else if v != nil {
			out[k] = v
		}
	}
	return out
}

// sameLabels reports whether the newest revision has the labels that the step gives.
func (o *operation) sameLabels() bool {
	for k, v := range o.Spec.Labels {
		if had, ok := o.last.Labels[k]; v == "null" && ok || v != "null" && (!ok || had != v) {
			return false
		}
	}
	return true
}

// given are the values that a revision would be recorded with: those of the step, merged
// over those of the revision that it goes on from where the step says so. An engine does
// the same (helm.sh/helm/v3 pkg/action/upgrade.go, reuseValues).
func (o *operation) given() map[string]any {
	from := o.from()
	if o.reuse() == engine.ResetValues || from == nil {
		return o.values
	}
	own, errOwn := charts.Canonical(o.values)
	before, errBefore := charts.Canonical(from.Config)
	if errOwn != nil || errBefore != nil {
		return o.values // which cannot be recorded
	}
	return charts.Coalesce(own, before)
}

// from is the revision that an upgrade goes on from: the deployed one, else the last; nil
// when there is none.
func (o *operation) from() *engine.Release {
	switch {
	case o.last == nil || o.last.Info.Status == engine.StatusUninstalled:
		return nil
	case o.deployed != nil:
		return o.deployed
	}
	return o.last
}

func (a *Action) reuse() engine.Reuse {
	switch {
	case a.Spec.ReuseValues:
		return engine.ReuseValues
	case a.Spec.ResetThenReuseValues:
		return engine.ResetThenReuseValues
	}
	return engine.ResetValues
}

func sameValues(a, b map[string]any) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	x, errX := charts.Canonical(a)
	y, errY := charts.Canonical(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func (o *operation) first() (*engine.Release, error) {
	o.installs = true
	options, err := o.engineOptions()
	if err != nil {
		return nil, err
	}
	how := engine.Install{
		Sending: o.sending(), Name: o.ReleaseName, Namespace: o.Namespace,
		CreateNamespace: o.Spec.CreateNamespace, SkipCRDs: o.Spec.CRDPolicy() != plan.CreateCRDs, Wait: o.waits(),
		Replace: o.last != nil, // one that failed, or was uninstalled and its history kept
		Labels:  o.labels(), MaxHistory: o.Spec.Kept(), Options: options,
	}
	if o.resend {
		how.Manifest = &o.last.Manifest
		unrendered(o.chart)
	}
	o.records.replaces = how.Replace
	if len(o.replaces.revisions) > 0 {
		o.client.before, o.records.finish = o.replaces.before, o.replaces.prune
	}
	return o.operations().Install(o.chart, o.values, how)
}

func (o *operation) upgrade() (*engine.Release, error) {
	if err := o.mend(); err != nil {
		return nil, err
	}
	options, err := o.engineOptions()
	if err != nil {
		return nil, err
	}
	how := engine.Upgrade{
		Sending: o.sending(), Name: o.ReleaseName, Namespace: o.Namespace, SkipCRDs: o.Spec.CRDPolicy() == plan.SkipCRDs, Wait: o.waits(),
		Labels: o.labels(), MaxHistory: o.Spec.Kept(), Reuse: o.reuse(), Options: options,
	}
	if o.resend {
		how.Manifest = &o.last.Manifest
		unrendered(o.chart)
	}
	return o.operations().Upgrade(o.chart, o.values, how)
}

// labels are those of a new revision, but for those that say who made it.
func (o *operation) labels() map[string]string {
	all := map[string]string{inputsLabel: o.inputs}
	maps.Copy(all, o.Spec.Labels)
	return all
}

// mark labels a new revision with what it is otherwise than others. Helm gives it the
// labels of the one before.
func (o *operation) mark(r *engine.Release) {
	labels := maps.Clone(r.Labels)
	delete(labels, crdsLabel)
	delete(labels, renderedLabel)
	if o.Spec.CRDPolicy() == plan.UpgradeCRDs {
		labels[crdsLabel] = string(plan.UpgradeCRDs)
	}
	if o.resend {
		labels[renderedLabel] = strconv.Itoa(o.all.renderedAs(o.last))
	}
	maps.DeleteFunc(labels, func(_, v string) bool { return v == "null" }) // as an upgrade takes one away
	r.Labels = labels
}

// engineOptions are what the step asks of Helm beyond its chart and values.
func (o *operation) engineOptions() (engine.Options, error) {
	has, err := o.capabilities()
	return engine.Options{
		WaitForJobs: o.Spec.WaitForJobs, DisableHooks: o.Spec.DisableHooks, TakeOwnership: o.Spec.TakeOwnership,
		Description: o.Spec.Description, Capabilities: has,
	}, err
}

// capabilities are what the chart is told of the cluster; nil where it is told what the
// cluster says.
func (o *operation) capabilities() (*engine.Capabilities, error) {
	if o.Spec.KubeVersion == "" && len(o.Spec.APIVersions) == 0 {
		return nil, nil
	}
	served, version, err := o.client.session.Cluster.Serves(o.ctx)
	if err != nil {
		return nil, err
	}
	has := o.Told(charts.CapabilitiesOf(version, served))
	if o.Spec.CRDPolicy() != plan.SkipCRDs {
		has.APIs = append(has.APIs, charts.Brings(o.chart)...) // by the time the chart is rendered
	}
	return &engine.Capabilities{KubeVersion: has.Version, APIVersions: has.APIs}, nil
}
