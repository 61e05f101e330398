package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/plan/load"
)

// fixedFile is a file as a remedy leaves it.
type fixedFile struct {
	file     string
	old, new []byte
}

// applyFix makes the edits of the remedy: it shows them as a diff, and writes the
// files unless only the diff is wanted. It tells whether files changed.
func (l *lintRun) applyFix(input lint.Input, found []finding.Finding) (bool, error) {
	edits, refusals := lint.Fix(input, found, lint.Remedy(l.fix))
	for _, r := range refusals {
		fmt.Fprintf(l.stderr, "%s: not mended: %s\n", words.Clean(r.Pos.String()), r.Why) // no reason quotes the plan
	}
	var files []fixedFile
	for _, e := range edits {
		if slices.ContainsFunc(files, func(m fixedFile) bool { return m.file == e.File }) {
			continue
		}
		old, err := os.ReadFile(e.File)
		if err != nil {
			return false, err
		}
		files = append(files, fixedFile{e.File, old, lint.Edited(e.File, old, edits)})
	}
	if err := l.verify(files); err != nil {
		return false, err
	}
	// Data on stdout stay data.
	out := l.stdout
	if l.output != lintText {
		out = l.stderr
	}
	for _, m := range files {
		if _, err := io.WriteString(out, words.Clean(l.secrets().Text(string(diff.Diff(m.file, m.old, m.file+" (mended)", m.new))))); err != nil {
			return false, err
		}
	}
	if l.diff {
		return false, nil
	}
	for _, m := range files {
		if err := outfile.Replace(m.file, m.new); err != nil {
			return false, err
		}
	}
	return len(files) > 0, nil
}

// verify returns what is wrong with mended files, before any is written: the plan that
// was read had no fault.
func (l *lintRun) verify(files []fixedFile) error {
	in := l.in
	in.Unknown = true
	in.Files = make(map[string][]byte, len(files))
	for _, m := range files {
		if err := isYAML(m.new); err != nil {
			return fmt.Errorf("nothing is mended: the mended %s would not be read: %w", m.file, err)
		}
		abs, err := filepath.Abs(m.file)
		if err != nil {
			return err
		}
		in.Files[abs] = m.new
	}
	if len(files) == 0 {
		return nil
	}
	in.Decrypter = l.keys
	if _, err := load.File(l.path, in); err != nil {
		return fmt.Errorf("nothing is mended: the mended plan would have faults: %w", err)
	}
	return nil
}

func isYAML(src []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(src))
	for {
		var n yaml.Node
		switch err := d.Decode(&n); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
