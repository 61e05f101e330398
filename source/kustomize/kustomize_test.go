package kustomize_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/txtar"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source/kustomize"
)

// tree are the files of a txtar, below a folder that is their root.
func tree(t *testing.T, text string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, f := range txtar.Parse([]byte(text)).Files {
		files["/"+f.Name] = f.Data
	}
	return files
}

// onDisk writes the files of a txtar.
func onDisk(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, src := range tree(t, text) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, src, 0o600))
	}
	return dir
}

const shop = `
-- base/kustomization.yaml --
resources: [web.yaml]
-- base/web.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  template: {spec: {containers: [{name: web, image: web:1.0}]}}
-- prod/kustomization.yaml --
resources: [../base]
namePrefix: prod-
images: [{name: web, newTag: "2.0"}]
patches:
  - path: replicas.yaml
configMapGenerator:
  - name: settings
    files: [mode=mode.txt]
-- prod/replicas.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3}
-- prod/mode.txt --
fast
`

const shopBuilt = `apiVersion: v1
data:
  mode: |
    fast
kind: ConfigMap
metadata:
  name: prod-settings-m4g9dct8dk
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: prod-web
spec:
  replicas: 3
  template:
    spec:
      containers:
      - image: web:2.0
        name: web
`

func TestBuild(t *testing.T) {
	dir := onDisk(t, shop)
	for name, s := range map[string]kustomize.Source{
		"disk":   {Folder: filepath.Join(dir, "prod")},
		"memory": {Folder: "/prod", Files: tree(t, shop)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kustomize.Build(s)
			require.NoError(t, err)
			require.ElementsMatch(t, documents(shopBuilt), documents(string(got.YAML)))
			require.Equal(t, filepath.Join(s.Folder, "kustomization.yaml"), got.File)
			var read []string
			for _, f := range got.Files {
				read = append(read, strings.TrimPrefix(f, dir))
			}
			slices.Sort(read)
			require.Equal(t, slices.Sorted(maps.Keys(tree(t, shop))), read)
		})
	}
}

func documents(text string) []string {
	var docs []string
	for d := range strings.SplitSeq(text, "---\n") {
		if d = strings.TrimSpace(d); !strings.HasPrefix(d, "apiVersion: v1\n") { // its name has a hash
			docs = append(docs, d)
		}
	}
	return docs
}

// Files are given to whoever may decrypt them, those of generators too.
func TestBuildOpens(t *testing.T) {
	open := func(file string, src []byte) ([]byte, error) {
		if strings.HasSuffix(file, "mode.txt") {
			return []byte("decrypted"), nil
		}
		return src, nil
	}
	got, err := kustomize.Build(kustomize.Source{Folder: "/prod", Files: tree(t, shop), Open: open})
	require.NoError(t, err)
	require.Contains(t, string(got.YAML), "mode: decrypted\n")

	locked := errors.New("there is no key")
	_, err = kustomize.Build(kustomize.Source{Folder: "/prod", Files: tree(t, shop), Open: func(file string, src []byte) ([]byte, error) {
		if strings.HasSuffix(file, "web.yaml") {
			return nil, runner.WithHint(locked, "get one")
		}
		return src, nil
	}})
	require.ErrorContains(t, err, "there is no key")
	require.Equal(t, "get one", runner.HintOf(err))
}

// Nothing is fetched, whichever field names it and however it is written.
func TestBuildFetchesNothing(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(server.Close)
	t.Setenv("PATH", t.TempDir()) // no git
	inner := "-- sub/kustomization.yaml --\n"
	for _, line := range []string{
		"resources: [URL/x.yaml]",
		"resources: ['https://github.com/org/repo//deploy?ref=v1']",
		"resources: [github.com/org/repo]",
		"resources: [GitHub.com:org/repo]",
		"resources: [git@example.com:org/repo.git]",
		"resources: ['git::https://example.com/org/repo']",
		"resources: ['git::me@example.com:org/repo']",
		"resources: [ssh://git@example.com/org/repo]",
		"resources: [file:///srv/repo]",
		"bases: [URL/base]",
		"Resources: [URL/x.yaml]",
		"BASES: [URL/base]",
		"patches: [{Path: URL/p.yaml}]",
		"re\u017fources: [URL/x.yaml]", // as encoding/json folds it
		"configMapGenerator: [{name: a, Files: [k=URL/a]}]",
		"components: [URL/component]",
		"crds: [URL/crd.json]",
		"configurations: [URL/names.yaml]",
		"generators: [URL/gen.yaml]",
		"transformers: [URL/t.yaml]",
		"validators: [URL/v.yaml]",
		"openapi: {path: URL/schema.json}",
		"patches: [{path: URL/p.yaml}]",
		"patchesStrategicMerge: [URL/p.yaml]",
		"patchesJson6902: [{target: {version: v1, kind: ConfigMap, name: a}, path: URL/p.yaml}]",
		"replacements: [{path: URL/r.yaml}]",
		"configMapGenerator: [{name: a, files: [URL/a]}]",
		"configMapGenerator: [{name: a, files: [k=URL/a]}]",
		"configMapGenerator: [{name: a, envs: [URL/a]}]",
		"secretGenerator: [{name: a, env: URL/a}]",
		"generators: ['{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: x}, files: [URL/a]}']",
		"transformers: [t.yaml]\n-- t.yaml --\n{apiVersion: builtin, kind: PatchTransformer, metadata: {name: x}, path: URL/p}",
		"resources: [sub]\n" + inner + "resources: [URL/x.yaml]",
		"components: [sub]\n" + inner + "kind: Component\npatches: &p [{path: URL/x.yaml}]",
		"metadata: {name: &u URL/x.yaml}\nresources: [*u]",
		"metadata: {annotations: {a: &u URL/x.yaml}}\npatches: [{path: *u}]",
		"<<: {resources: [URL/x.yaml]}",
		"<<: [{namePrefix: a}, {patches: [{path: URL/x.yaml}]}]",
		"generators: [sub]\n" + inner + "resources: [URL/x.yaml]",
	} {
		text := "-- kustomization.yaml --\n" + strings.ReplaceAll(line, "URL", server.URL)
		_, err := kustomize.Build(kustomize.Source{Folder: onDisk(t, text)})
		require.ErrorContains(t, err, "would be fetched from elsewhere", line)
		require.Regexp(t, `kustomization\.yaml:[12]:\d+: `, err.Error(), line)
		require.True(t, runner.IsPermanent(err))
		require.Contains(t, runner.HintOf(err), "copy it into the project")
	}
	require.False(t, asked)
}

func TestBuildFaults(t *testing.T) {
	for name, c := range map[string]struct{ files, message, hint string }{
		"no kustomization": {"-- a.yaml --\nx", "the folder DIR has no kustomization.yaml", "kustomize create"},
		"two of them":      {"-- kustomization.yaml --\n-- kustomization.yml --\n", "several kustomizations: kustomization.yaml, kustomization.yml", ""},
		"no such file":     {"-- kustomization.yaml --\nresources:\n- a.yaml\n- b.yaml\n", "DIR/kustomization.yaml:2:3: there is no file or folder \"a.yaml\"\nDIR/kustomization.yaml:3:3: ", "relative to the folder"},
		"no YAML":          {"-- kustomization.yaml --\nresources: [\n", "DIR/kustomization.yaml: line ", ""},
		"unknown field":    {"-- kustomization.yaml --\nresource: [a.yaml]\n", `unknown field "resource"`, "kubectl kustomize"},
		"helm":             {"-- kustomization.yaml --\nhelmCharts:\n- name: a\n", "DIR/kustomization.yaml:2:1: helmCharts would run the helm program", "make a helm step"},
		"helm, kind twice": {"-- kustomization.yaml --\ngenerators: [h.yaml]\n-- h.yaml --\nkind: HelmChartInflationGenerator\nKind: Other\n", "HelmChartInflationGenerator would run the helm program", "make a helm step"},
		"helm as a plugin": {"-- kustomization.yaml --\ngenerators: [h.yaml]\n-- h.yaml --\nkind: HelmChartInflationGenerator\n", "HelmChartInflationGenerator would run the helm program", "make a helm step"},
		"exec plugin":      {"-- kustomization.yaml --\ngenerators: [g.yaml]\n-- g.yaml --\napiVersion: example.com/v1\nkind: Gen\nmetadata: {name: g, annotations: {config.kubernetes.io/function: 'exec: {path: ./run}'}}\n", "", "kplan runs no plugins"},
		"outside":          {"-- kustomization.yaml --\nresources: [/etc/hostname]\n", "", "an overlay reads no file outside of its folder"},
		"patch":            {"-- kustomization.yaml --\npatches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}'}]\n", "no matches for Id", "by the name that it has in its base"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := onDisk(t, c.files)
			_, err := kustomize.Build(kustomize.Source{Folder: dir})
			require.ErrorContains(t, err, strings.ReplaceAll(c.message, "DIR", dir))
			require.Contains(t, runner.HintOf(err), c.hint)
		})
	}
	_, err := kustomize.Build(kustomize.Source{Folder: "/nowhere/at/all", Shown: func(string) string { return "./all" }})
	require.ErrorContains(t, err, "there is no folder ./all")
}

// Steps run side by side, and one overlay's schema is not another's.
func TestBuildsSideBySide(t *testing.T) {
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			_, err := kustomize.Build(kustomize.Source{Folder: "/prod", Files: tree(t, shop)})
			return err
		})
	}
	require.NoError(t, group.Wait())
}
