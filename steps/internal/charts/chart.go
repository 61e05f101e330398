// Package charts gets the charts of helm steps, from disk, registries and
// repositories, merges their values and renders them.
//
// It asks no cluster, runs no plugin, post-renderer or dependency update, and writes
// to no folder but one of its own, which it removes.
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
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/flight"
)

// Chart is the chart of a helm step with its values, for one release.
type Chart struct {
	step        plan.Step
	Spec        plan.Helm
	ReleaseName string
	Namespace   string
	Source      *source
}

// New makes the chart of a helm step; namespace is that of a release
// whose step names none. Nothing is read yet.
func New(step plan.Step, namespace string) (*Chart, error) {
	spec := *step.Helm
	c := &Chart{step: step, Spec: spec, ReleaseName: step.ReleaseName(), Namespace: cmp.Or(spec.Namespace, namespace)}
	if problems := validation.IsDNS1123Label(c.Namespace); len(problems) > 0 {
		return nil, fmt.Errorf("namespace %q: %s", c.Namespace, problems[0])
	}
	c.Source = &source{spec: spec, path: step.Path(spec.Chart)}
	return c, nil
}

// source is where a chart comes from. A chart from afar is fetched once and
// kept in memory for the step's other attempts. It is safe for concurrent use.
type source struct {
	spec plan.Helm
	path string // of a local chart

	// flight fetches the archive, which nobody else touches.
	flight  flight.Group[[]byte]
	archive []byte
}

// Load reads the chart, always anew: Helm changes the one that it renders.
func (s *source) Load(ctx context.Context) (*helmchart.Chart, error) {
	ch, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := usable(ch); err != nil {
		return nil, runner.Permanent(err)
	}
	return ch, nil
}

func (s *source) open(ctx context.Context) (*helmchart.Chart, error) {
	if s.spec.IsLocal() {
		ch, err := loader.Load(s.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, runner.WithHint(runner.Permanent(fmt.Errorf("chart %s does not exist", s.spec.Chart)),
				"paths are relative to the plan file; a chart of a repository needs repo")
		}
		if err != nil {
			return nil, runner.Permanent(fmt.Errorf("reading chart %s: %w", s.spec.Chart, err))
		}
		return ch, nil
	}
	archive, err := s.fetched(ctx)
	if err != nil {
		err = fmt.Errorf("fetching chart %s: %w", s.spec.Chart, err)
		if ctx.Err() == nil && runner.HintOf(err) == "" {
			err = runner.WithHint(err, fetchHint(s.spec))
		}
		away := ctx.Err() == nil && isUnreachable(err)
		if err = withoutPasswords(err, s.spec.Chart, s.spec.Repo); away {
			err = &UnreachableError{err}
		}
		return nil, err
	}
	ch, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, runner.Permanent(fmt.Errorf("reading chart %s: %w", Public(s.spec.Chart), err))
	}
	return ch, nil
}

// fetched is the archive of a chart from afar.
func (s *source) fetched(ctx context.Context) ([]byte, error) {
	return s.flight.Do(ctx, "", func(ctx context.Context) (archive []byte, err error) {
		if s.archive == nil { // calls come one after another
			s.archive, err = fetch(ctx, s.spec)
		}
		return s.archive, err
	})
}

func fetchHint(spec plan.Helm) string {
	if spec.IsOCI() {
		return "check the address and the version with: helm show chart " + spec.Chart + "; log in to a private registry with: helm registry login"
	}
	return "check the repository with: helm show chart " + spec.Chart + " --repo " + spec.Repo
}

// usable tells what is wrong with a chart that cannot be installed.
func usable(ch *helmchart.Chart) error {
	if t := ch.Metadata.Type; t != "" && t != "application" {
		return fmt.Errorf("chart %s is a %s chart, which cannot be installed", ch.Metadata.Name, t)
	}
	if err := action.CheckDependencies(ch, ch.Metadata.Dependencies); err != nil {
		return runner.WithHint(fmt.Errorf("chart %s: %w", ch.Metadata.Name, err), "fetch them with: helm dependency build")
	}
	return nil
}

// Values merges the values files and the step's own values, later ones win.
func (c *Chart) Values() (map[string]any, error) {
	merged := map[string]any{}
	for _, name := range c.Spec.ValuesFiles {
		v, err := chartutil.ReadValuesFile(c.step.Path(name))
		if err != nil {
			return nil, fmt.Errorf("reading values file %s: %w", name, err)
		}
		merged = chartutil.MergeTables(v, merged)
	}
	own, err := Canonical(c.Spec.Values)
	if err != nil {
		return nil, fmt.Errorf("reading values: %w", err)
	}
	return chartutil.MergeTables(own, merged), nil
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
func Digest(ch *helmchart.Chart) string { return contentOf(ch)[:40] }

func contentOf(ch *helmchart.Chart) string {
	files := slices.Clone(ch.Raw)
	slices.SortFunc(files, func(a, b *helmchart.File) int { return strings.Compare(a.Name, b.Name) })
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
