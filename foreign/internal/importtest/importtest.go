// Package importtest tests what reads the files of other tools, by archives of such a
// file and what is to become of it.
//
// It knows none of these tools.
package importtest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/source/kustomize"
)

var update = flag.Bool("update", false, "write what the goldens should be")

// want is the folder of an archive with what is to be made: plan.yaml, the files beside
// it, report, and faults: files that are named and not there.
const want = "want/"

// Golden runs an importer over each archive of testdata. A line "import FILE…" of its
// comment names the files that are given; without one that is the first of the archive.
// With a line "build", overlays are built.
// The plan is written beside them, has to be valid with all files that it names, and may
// break no rule of severity error.
func Golden(t *testing.T, do func(foreign.Input) (*foreign.Result, error)) {
	t.Helper()
	archives, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			require.NoError(t, err)
			golden(t, name, archive, do)
		})
	}
}

func golden(t *testing.T, name string, archive *txtar.Archive, do func(foreign.Input) (*foreign.Result, error)) {
	t.Helper()
	dir := t.TempDir()
	inputs, expected := map[string][]byte{}, map[string]string{}
	kept := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		if made, ok := strings.CutPrefix(f.Name, want); ok {
			expected[made] = string(f.Data)
			continue
		}
		inputs[f.Name] = f.Data
		kept.Files = append(kept.Files, f)
		writeFile(t, dir, f.Name, f.Data)
	}
	in := foreign.Input{Dir: ".", Read: func(name string) ([]byte, error) {
		if data, ok := inputs[name]; ok {
			return data, nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}}
	if slices.Contains(strings.Split(string(kept.Comment), "\n"), "build") {
		in.Build = overlays(inputs)
	}
	for _, file := range given(kept) {
		in.Files = append(in.Files, foreign.File{Name: file, Data: inputs[file]})
	}
	made := map[string]string{}
	result, err := do(in)
	if err != nil {
		made["error"] = err.Error() + "\n"
	} else {
		result.Sort(in.Files)
		text, err := result.Text("plan.yaml")
		require.NoError(t, err, "%s", text)
		made["plan.yaml"] = string(text)
		for _, f := range result.Files {
			made[f.Name] = string(f.Data)
			writeFile(t, dir, f.Name, f.Data)
		}
		made["report"] = report(result.Report)
		writeFile(t, dir, "plan.yaml", text)
		if faults := check(t, filepath.Join(dir, "plan.yaml")); faults != "" {
			made["faults"] = strings.ReplaceAll(faults, dir+string(filepath.Separator), "")
		}
	}
	if *update {
		for _, file := range slices.Sorted(maps.Keys(made)) {
			kept.Files = append(kept.Files, txtar.File{Name: want + file, Data: []byte(made[file])})
		}
		require.NoError(t, os.WriteFile(name, txtar.Format(kept), 0o644))
		return
	}
	require.Equal(t, expected, made)
}

// overlays builds those of files in memory.
func overlays(files map[string][]byte) func(string) ([]byte, error) {
	all := map[string][]byte{}
	for name, data := range files {
		all["/"+name] = data
	}
	return func(dir string) ([]byte, error) {
		b, err := kustomize.Build(kustomize.Source{Folder: "/" + dir, Files: all})
		return b.YAML, err
	}
}

// given are the files that the importer is given.
func given(archive *txtar.Archive) []string {
	for line := range bytes.Lines(archive.Comment) {
		if fields := strings.Fields(string(line)); len(fields) > 1 && fields[0] == "import" {
			return fields[1:]
		}
	}
	return []string{archive.Files[0].Name}
}

// check wants a plan to be valid, and to break no rule that is an error. Files that are
// not there are left to be filled in, and returned.
func check(t *testing.T, file string) (missing string) {
	t.Helper()
	none := func(string) (string, bool) { return "", false }
	p, err := load.File(file, load.Options{Unknown: true, Env: none})
	if faults, ok := errors.AsType[document.Diagnostics](err); ok {
		for _, d := range faults {
			if d.Code == document.CodeFile {
				missing += d.Pos.String() + ": " + d.Message + "\n"
				continue
			}
			require.Equal(t, document.CodeVariable, d.Code, "a variable may be left to be given: %s", d)
		}
		p, err = load.File(file, load.Options{Unset: true, Env: none})
	}
	require.NoError(t, err)
	for _, f := range lint.Run(lint.Input{Plan: p}) {
		require.NotEqual(t, finding.Error, f.Severity, "%s", f)
	}
	return missing
}

// report is a report as its golden has it.
func report(r foreign.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s\n", f)
	}
	for i, first := range r.First {
		fmt.Fprintf(&b, "%d. %s\n", i+1, first)
	}
	return b.String()
}

func writeFile(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, data, 0o644))
}

// Fuzz feeds an importer with texts, beginning with the files of the archives of
// testdata. Whatever it gets, it returns an error or a plan that is valid but for files
// that are not there, and for values of the text that no plan can have, such as a
// namespace with capitals.
func Fuzz(f *testing.F, name string, do func(foreign.Input) (*foreign.Result, error)) {
	f.Helper()
	archives, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	for _, a := range archives {
		archive, err := txtar.ParseFile(a)
		require.NoError(f, err)
		f.Add(archive.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := do(foreign.Input{
			Files: []foreign.File{{Name: name, Data: data}}, Dir: ".",
			Read: func(string) ([]byte, error) { return nil, fs.ErrNotExist },
		})
		if err != nil {
			return
		}
		text, err := result.Text("plan.yaml")
		faults, ok := errors.AsType[document.Diagnostics](err)
		require.True(t, err == nil || ok, "%v\n%s", err, text)
		for _, d := range faults {
			require.Equal(t, document.CodeInvalid, d.Code, "%s\n%s", d, text)
		}
	})
}
