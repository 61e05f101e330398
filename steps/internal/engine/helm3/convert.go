package helm3

import (
	"encoding/json"
	"fmt"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"

	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// books keeps the releases that Helm and the step work on, each of them with one of
// its own: what one changes the other sees after the next exchange. Charts and file
// contents are shared, and not copied.
type books struct {
	releases map[*release.Release]*engine.Release
	hooks    map[*release.Hook]*engine.Hook
	charts   map[*helmchart.Chart]*engine.Chart
	// made is the revision that Helm makes, and method how its objects are applied;
	// nil and empty before.
	made   *release.Release
	method string
}

func newBooks() *books {
	return &books{
		releases: map[*release.Release]*engine.Release{},
		hooks:    map[*release.Hook]*engine.Hook{},
		charts:   map[*helmchart.Chart]*engine.Chart{},
	}
}

// pull returns the step's side of a release, with what Helm changed. What Helm 3 does
// not know of it stays.
func (b *books) pull(r *release.Release) (*engine.Release, error) {
	own := b.releases[r]
	if own == nil {
		own = &engine.Release{}
		b.releases[r] = own
	}
	ch, err := b.chartOf(r.Chart)
	if err != nil {
		return nil, err
	}
	own.Name, own.Namespace, own.Version, own.Labels = r.Name, r.Namespace, r.Version, r.Labels
	own.Chart, own.Config, own.Manifest = ch, r.Config, r.Manifest
	own.Hooks = nil
	for _, h := range r.Hooks {
		own.Hooks = append(own.Hooks, b.hookOf(h))
	}
	if r.Info == nil {
		own.Info = nil
		return own, nil
	}
	if own.Info == nil {
		own.Info = &engine.Info{}
	}
	i := r.Info
	own.Info.FirstDeployed, own.Info.LastDeployed, own.Info.Deleted = i.FirstDeployed.Time, i.LastDeployed.Time, i.Deleted.Time
	own.Info.Status, own.Info.Description = engine.Status(i.Status), i.Description
	own.Info.Notes, own.Info.Resources = i.Notes, i.Resources
	return own, nil
}

// push brings what the step changed of its side to Helm's.
func (b *books) push(r *release.Release) error {
	own := b.releases[r]
	if own == nil {
		return nil
	}
	ch, err := b.theirChart(own.Chart)
	if err != nil {
		return err
	}
	r.Name, r.Namespace, r.Version, r.Labels = own.Name, own.Namespace, own.Version, own.Labels
	r.Chart, r.Config, r.Manifest = ch, own.Config, own.Manifest
	r.Info = infoFrom(own.Info)
	r.Hooks = nil
	for _, h := range own.Hooks {
		r.Hooks = append(r.Hooks, b.theirHook(h))
	}
	return nil
}

// theirs is Helm's side of a release that the step has.
func (b *books) theirs(own *engine.Release) (*release.Release, error) {
	for r, o := range b.releases {
		if o == own {
			return r, b.push(r)
		}
	}
	r := &release.Release{}
	b.releases[r] = own
	return r, b.push(r)
}

func (b *books) hookOf(h *release.Hook) *engine.Hook {
	own := b.hooks[h]
	if own == nil {
		own = &engine.Hook{}
		b.hooks[h] = own
	}
	own.Name, own.Kind, own.Path, own.Manifest, own.Weight = h.Name, h.Kind, h.Path, h.Manifest, h.Weight
	own.Events = each(h.Events, func(e release.HookEvent) engine.HookEvent { return engine.HookEvent(e) })
	own.DeletePolicies = each(h.DeletePolicies, func(p release.HookDeletePolicy) engine.HookDeletePolicy { return engine.HookDeletePolicy(p) })
	own.OutputLogPolicies = each(h.OutputLogPolicies, func(p release.HookOutputLogPolicy) engine.HookOutputLogPolicy {
		return engine.HookOutputLogPolicy(p)
	})
	own.LastRun = engine.HookExecution{
		StartedAt: h.LastRun.StartedAt.Time, CompletedAt: h.LastRun.CompletedAt.Time, Phase: engine.HookPhase(h.LastRun.Phase),
	}
	return own
}

func (b *books) theirHook(own *engine.Hook) *release.Hook {
	for h, o := range b.hooks {
		if o == own {
			setHook(h, own)
			return h
		}
	}
	h := &release.Hook{}
	b.hooks[h] = own
	setHook(h, own)
	return h
}

func setHook(h *release.Hook, own *engine.Hook) {
	h.Name, h.Kind, h.Path, h.Manifest, h.Weight = own.Name, own.Kind, own.Path, own.Manifest, own.Weight
	h.Events = each(own.Events, func(e engine.HookEvent) release.HookEvent { return release.HookEvent(e) })
	h.DeletePolicies = each(own.DeletePolicies, func(p engine.HookDeletePolicy) release.HookDeletePolicy { return release.HookDeletePolicy(p) })
	h.OutputLogPolicies = each(own.OutputLogPolicies, func(p engine.HookOutputLogPolicy) release.HookOutputLogPolicy {
		return release.HookOutputLogPolicy(p)
	})
	h.LastRun = release.HookExecution{
		StartedAt: helmtime.Time{Time: own.LastRun.StartedAt}, CompletedAt: helmtime.Time{Time: own.LastRun.CompletedAt},
		Phase: release.HookPhase(own.LastRun.Phase),
	}
}

func infoFrom(own *engine.Info) *release.Info {
	if own == nil {
		return nil
	}
	return &release.Info{
		FirstDeployed: helmtime.Time{Time: own.FirstDeployed}, LastDeployed: helmtime.Time{Time: own.LastDeployed},
		Deleted: helmtime.Time{Time: own.Deleted}, Status: release.Status(own.Status), Description: own.Description,
		Notes: own.Notes, Resources: own.Resources,
	}
}

func (b *books) chartOf(ch *helmchart.Chart) (*engine.Chart, error) {
	if own := b.charts[ch]; own != nil || ch == nil {
		return own, nil
	}
	own, err := chartOf(ch)
	if err == nil {
		b.charts[ch] = own
	}
	return own, err
}

func (b *books) theirChart(own *engine.Chart) (*helmchart.Chart, error) {
	if own == nil {
		return nil, nil
	}
	for ch, o := range b.charts {
		if o == own {
			return ch, nil
		}
	}
	ch, err := chartFrom(own)
	if err == nil {
		b.charts[ch] = own
	}
	return ch, err
}

// chartOf makes a chart of Helm 3's the engine's.
func chartOf(ch *helmchart.Chart) (*engine.Chart, error) {
	own := &engine.Chart{
		Raw: each(ch.Raw, fileOf), Templates: each(ch.Templates, fileOf), Files: each(ch.Files, fileOf),
		Values: ch.Values, Schema: ch.Schema,
	}
	if err := same(ch.Metadata, &own.Metadata); err != nil {
		return nil, err
	}
	if err := same(ch.Lock, &own.Lock); err != nil {
		return nil, err
	}
	for _, sub := range ch.Dependencies() {
		s, err := chartOf(sub)
		if err != nil {
			return nil, err
		}
		own.AddDependency(s)
	}
	return own, nil
}

// chartFrom is chartOf the other way.
func chartFrom(own *engine.Chart) (*helmchart.Chart, error) {
	ch := &helmchart.Chart{
		Raw: each(own.Raw, fileFrom), Templates: each(own.Templates, fileFrom), Files: each(own.Files, fileFrom),
		Values: own.Values, Schema: own.Schema,
	}
	if err := same(own.Metadata, &ch.Metadata); err != nil {
		return nil, err
	}
	if err := same(own.Lock, &ch.Lock); err != nil {
		return nil, err
	}
	for _, sub := range own.Dependencies() {
		s, err := chartFrom(sub)
		if err != nil {
			return nil, err
		}
		ch.AddDependency(s)
	}
	return ch, nil
}

func fileOf(f *helmchart.File) *engine.File { return &engine.File{Name: f.Name, Data: f.Data} }

func fileFrom(f *engine.File) *helmchart.File { return &helmchart.File{Name: f.Name, Data: f.Data} }

// each converts a list; one that is nil stays so.
func each[A, B any](list []A, convert func(A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = convert(v)
	}
	return out
}

// same copies what has the same JSON form in both versions of Helm.
func same(from, to any) error {
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return fmt.Errorf("reading a chart: %w", err)
	}
	return nil
}
