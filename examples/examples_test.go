// Package examples_test checks that the example plans can be read and run, that
// the lab's charts render, and that the lab's operator misbehaves as it should
// on a real node. It does not check how kplan meets faults: the tests of
// cmd/kplan and steps do.
package examples_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// Every example can be read with its own defaults, and with the lab's variables.
func TestPlansLoad(t *testing.T) {
	given := load.Options{Env: func(name string) (string, bool) { return "token", name == "REGISTRY_TOKEN" }}
	for _, tt := range []struct {
		file, vars, last string
	}{
		{"eso/plan.yaml", "../lab/eso.yaml", "image-pull[storage-validator]"},
		{"kof/plan.yaml", "../lab/kof.yaml", "clusters/child-instrumentation"},
		{"kof/before-1.8.yaml", "../lab/kof-before-1.8.yaml", "clusters/child-instrumentation"},
		{"certmanager/plan.yaml", "../lab/certmanager.yaml", "app"},
		{"dynamo/plan.yaml", "../lab/dynamo.yaml", "graph-ready"},
		{"kgst/plan.yaml", "../lab/kgst.yaml", "catalog[team-a]/valid[valkey]"},
		{"../lab/race/plan.yaml", "", "guarded"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			p, err := load.File(tt.file, given)
			require.NoError(t, err)
			order := p.Graph().Order()
			require.Equal(t, tt.last, order[len(order)-1])
			if tt.vars == "" {
				return
			}
			real := charts(p)
			p, err = load.File(tt.file, load.Options{VarFiles: []string{tt.vars}})
			require.NoError(t, err)
			require.Len(t, charts(p), len(real))
			for i, h := range charts(p) {
				require.True(t, h.IsLocal(), "the lab has no network: %s", h.Chart)
				require.False(t, real[i].IsLocal(), "the example is about the real chart: %s", real[i].Chart)
			}
		})
	}
}

// The examples keep kplan's own rules: what is shown to be copied must not warn of
// errors. The lab's charts are rendered for it.
func TestPlansLint(t *testing.T) {
	for file, vars := range map[string]string{
		"eso/plan.yaml": "eso", "kof/plan.yaml": "kof", "kof/before-1.8.yaml": "kof-before-1.8", "certmanager/plan.yaml": "certmanager",
		"dynamo/plan.yaml": "dynamo", "kgst/plan.yaml": "kgst",
	} {
		t.Run(file, func(t *testing.T) {
			p, err := load.File(file, load.Options{VarFiles: []string{"../lab/" + vars + ".yaml"}})
			require.NoError(t, err)
			in, err := analyze.LintInput(t.Context(), p, nil, true)
			require.NoError(t, err)
			require.Empty(t, in.Unread)
			for _, f := range lint.Run(in) {
				require.NotEqual(t, finding.Error, f.Severity, "%v", f)
			}
		})
	}
}

func charts(p *plan.Plan) []plan.Helm {
	var out []plan.Helm
	for _, s := range p.Steps {
		if s.Helm != nil {
			out = append(out, *s.Helm)
		}
	}
	return out
}
