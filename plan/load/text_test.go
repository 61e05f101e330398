package load_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

func TestLocate(t *testing.T) {
	p, err := load.Parse("p.yaml", []byte(`apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: p}
vars: {a: {default: 1}}
steps:
- name: map
  apply:
    objects:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: m}}
- {name: there, needs: [map], wait: {resource: cm/m, for: create}}
`), load.Options{})
	require.NoError(t, err)
	for _, tt := range []struct {
		step   int
		fields []any
		place  string
		path   string
		caret  string
	}{
		{1, []any{"wait", "for"}, "p.yaml:10:59", "steps[1].wait.for", "- {name: there, needs: [map], wait: {resource: cm/m, for: create}}"},
		{1, []any{"wait"}, "p.yaml:10:31", "steps[1].wait", "- {name: there, needs: [map], wait: {resource: cm/m, for: create}}"},
		{
			0,
			[]any{"apply", "objects", 0, "metadata", "name"},
			"p.yaml:9:58", "steps[0].apply.objects[0].metadata.name",
			"    - {apiVersion: v1, kind: ConfigMap, metadata: {name: m}}",
		},
		{0, []any{"apply", "files", 3}, "p.yaml:7:3", "steps[0].apply.files[3]", "  apply:"},
		{0, nil, "p.yaml:6:3", "steps[0]", "- name: map"},
	} {
		at := p.Steps[tt.step].Locate(tt.fields...)
		require.Equal(t, tt.place, at.String())
		require.Equal(t, tt.path, at.Path)
		require.Contains(t, at.Excerpt, tt.caret+"\n")
	}
	require.Equal(t, "p.yaml:4:21", p.Texts[0].Place("vars", "a", "default").String())
	require.Equal(t, document.Place{Path: "wait"}, plan.Step{}.Locate("wait"), "a step that was read from no file")
}

// The document of a file that has others has the lines of the file.
func TestTextLines(t *testing.T) {
	text := document.NewPart("f.yaml", 7, []byte("kind: A\nspec: {on: 1}\n"))
	require.Equal(t, document.Place{Pos: document.Pos{File: "f.yaml", Line: 8, Col: 12}, Path: "spec.true", Excerpt: "spec: {on: 1}\n           ^"},
		text.Place("spec", "true"))
	require.Equal(t, "spec: {on: 1}", text.Line(8))
	require.Empty(t, text.Line(1))
	require.Nil(t, text.Find("spec", "off"))
	require.Equal(t, 19, text.Offset(text.Find("spec", "true")))
	require.Nil(t, document.NewPart("f.yaml", 1, []byte("{")).Root())
	require.Equal(t, "f.yaml", document.NewPart("f.yaml", 1, []byte("{")).Place("a").String())
}
