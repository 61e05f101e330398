// Package charts gets the charts of helm steps, from disk, registries and
// repositories, merges their values and renders them.
//
// It asks no cluster, runs no plugin, post-renderer or dependency update, and does
// not fetch itself: package source does.
package charts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/engine/helm3"
	"github.com/kplan-dev/kplan/steps/internal/engine/helm4"
)

// Chart is the chart of a helm step with its values, for one release.
type Chart struct {
	step        plan.Step
	Spec        plan.Helm
	ReleaseName string
	Namespace   string
	Source      *origin
}

// New makes the chart of a helm step, which a store gets if it is not local; namespace
// is that of a release whose step names none. Nothing is read yet.
func New(step plan.Step, namespace string, from *source.Store) (*Chart, error) {
	spec := *step.Helm
	c := &Chart{step: step, Spec: spec, ReleaseName: step.ReleaseName(), Namespace: cmp.Or(spec.Namespace, namespace)}
	if problems := validation.IsDNS1123Label(c.Namespace); len(problems) > 0 {
		return nil, fmt.Errorf("namespace %q: %s", c.Namespace, problems[0])
	}
	c.Source = &origin{spec: spec, step: step, path: step.Path(spec.Chart), from: from}
	return c, nil
}

// Engine is the version of Helm that the step's release is made by.
func (c *Chart) Engine() engine.Engine { return EngineOf(c.Spec) }

// EngineOf is the version of Helm that a step asks for.
func EngineOf(h plan.Helm) engine.Engine {
	if h.Engine == plan.Helm4 {
		return helm4.Engine{}
	}
	return helm3.Engine{}
}

// origin is where a chart comes from. It is safe for concurrent use.
type origin struct {
	spec plan.Helm
	step plan.Step
	path string // of a local chart
	from *source.Store
}

// Load reads the chart, always anew: Helm changes the one that it renders.
func (s *origin) Load(ctx context.Context) (*engine.Chart, error) {
	ch, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.usable(ch); err != nil {
		return nil, runner.Permanent(err)
	}
	return ch, nil
}

func (s *origin) open(ctx context.Context) (*engine.Chart, error) {
	if s.spec.IsLocal() {
		return s.local(ctx)
	}
	archive, err := s.from.Chart(ctx, source.ChartOf(s.step))
	if err != nil {
		return nil, err
	}
	ch, err := EngineOf(s.spec).LoadArchive(bytes.NewReader(archive.Bytes))
	if err != nil {
		return nil, runner.Permanent(fmt.Errorf("reading chart %s: %w", source.Public(s.spec.Chart), err))
	}
	return ch, nil
}

// local reads a chart from disk.
func (s *origin) local(ctx context.Context) (*engine.Chart, error) {
	if err := s.verify(); err != nil {
		return nil, fmt.Errorf("reading chart %s: %w", s.spec.Chart, err)
	}
	helm := EngineOf(s.spec)
	ch, err := helm.Load(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, runner.WithHint(runner.Permanent(fmt.Errorf("chart %s does not exist", s.spec.Chart)),
			"paths are relative to the plan file; a chart of a repository needs repo")
	}
	if err != nil {
		return nil, runner.Permanent(fmt.Errorf("reading chart %s: %w", s.spec.Chart, err))
	}
	dir := ""
	if info, err := os.Stat(s.path); err == nil && info.IsDir() {
		dir = s.path
	}
	whole, err := dependencies{helm: helm, from: s.from}.complete(ctx, ch, dir)
	if err != nil {
		return nil, fmt.Errorf("reading chart %s: %w", s.spec.Chart, err)
	}
	return whole, nil
}

// verify checks a local archive by the provenance file beside it, where the step wants
// that.
func (s *origin) verify() error {
	if s.spec.Verify == nil || s.spec.Verify.Keyring == "" {
		return nil
	}
	archive, err := os.ReadFile(s.path)
	if err != nil {
		return runner.Permanent(err)
	}
	provenance, err := os.ReadFile(s.path + ".prov")
	if err != nil {
		return runner.Permanent(fmt.Errorf("it has no provenance file: %w", err))
	}
	return source.CheckProvenance(s.step.Path(s.spec.Verify.Keyring), filepath.Base(s.path), archive, provenance)
}

// usable tells what is wrong with a chart that cannot be installed.
func (s *origin) usable(ch *engine.Chart) error {
	if t := ch.Metadata.Type; t != "" && t != "application" {
		return fmt.Errorf("chart %s is a %s chart, which cannot be installed", ch.Metadata.Name, t)
	}
	if err := EngineOf(s.spec).CheckDependencies(ch); err != nil {
		return runner.WithHint(fmt.Errorf("chart %s: %w", ch.Metadata.Name, err), "fetch them with: helm dependency build")
	}
	return nil
}

// Values merges the values files, the step's own values and those of its set_file; later
// ones win.
func (c *Chart) Values(ctx context.Context) (map[string]any, error) {
	merged := map[string]any{}
	for _, name := range c.Spec.ValuesFiles {
		text, err := c.Source.from.Values(ctx, c.step, name)
		if err != nil {
			return nil, fmt.Errorf("reading values file %s: %w", source.Public(name), err)
		}
		v, err := chartutil.ReadValues(text.Bytes)
		if err != nil {
			return nil, runner.Permanent(fmt.Errorf("reading values file %s: %w", source.Public(name), err))
		}
		merged = chartutil.MergeTables(v, merged)
	}
	own, err := Canonical(c.Spec.Values)
	if err != nil {
		return nil, fmt.Errorf("reading values: %w", err)
	}
	merged = chartutil.MergeTables(own, merged)
	return merged, c.setFiles(merged)
}

// Canonical is a copy of values as Helm stores them: every number is a float64.
func Canonical(values map[string]any) (map[string]any, error) {
	b, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(b, &out)
}

// Digest names the content of a chart and its subcharts, as a label's value.
// The order of files and subcharts is not part of it: the loader takes subcharts
// from a map.
func Digest(ch *engine.Chart) string { return contentOf(ch)[:40] }

func contentOf(ch *engine.Chart) string {
	files := slices.Clone(ch.Raw)
	slices.SortFunc(files, func(a, b *engine.File) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, f := range files {
		if strings.HasPrefix(f.Name, "charts/") {
			continue // read as subcharts: an archive has times in it, which say nothing
		}
		fmt.Fprintf(h, "%s %d\n", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	var subs []string
	for _, sub := range ch.Dependencies() {
		subs = append(subs, contentOf(sub))
	}
	slices.Sort(subs)
	for _, sub := range subs {
		fmt.Fprintf(h, "charts/%s\n", sub)
	}
	return hex.EncodeToString(h.Sum(nil))
}
