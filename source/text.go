package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source/sops"
)

// maxText bounds one file, in bytes: larger ones are neither manifests nor values.
const maxText = 64 << 20

// Text is a file, or another text of manifests or values, as a step reads it: what was
// encrypted in it is in plain.
type Text struct {
	// Name is what errors call it: its path, relative to the step's folder where that is
	// shorter, or its address.
	Name string
	// File is the absolute path of a file on disk; "" for others.
	File string
	// Bytes are what it holds, with expressions evaluated where the step wants it.
	Bytes []byte
	// Field is the field of the step that names it.
	Field []any
	// Written is what stands in the file where Bytes differ from it, line by line the same:
	// it is what may be shown.
	Written []byte
}

// Fetches reports whether a step reads manifests or values that are not on this machine's
// disk: reading them takes time, and may fail today and succeed tomorrow.
func Fetches(step plan.Step) bool {
	for _, name := range inputs(step) {
		if name == plan.Stdin || plan.IsAddress(name) {
			return true
		}
	}
	return false
}

// inputs are the files, folders and addresses that a step names.
func inputs(step plan.Step) []string {
	switch {
	case step.Helm != nil:
		return step.Helm.ValuesFiles
	case step.Apply != nil:
		return append([]string{step.Apply.Kustomize}, step.Apply.Files...)
	case step.Delete != nil:
		return append([]string{step.Delete.Kustomize}, step.Delete.Files...)
	}
	return nil
}

// Manifests returns the texts that an apply or delete step reads its objects from, in the
// order in which it names them, but for those that stand in the plan. Those that can be
// read are returned even if others cannot. A nil Store reads files only, and as they are.
func (s *Store) Manifests(ctx context.Context, step plan.Step) ([]Text, error) {
	var files []string
	overlay, plainHTTP := "", false
	switch {
	case step.Apply != nil:
		files, overlay, plainHTTP = step.Apply.Files, step.Apply.Kustomize, step.Apply.PlainHTTP
	case step.Delete != nil:
		files, overlay, plainHTTP = step.Delete.Files, step.Delete.Kustomize, step.Delete.PlainHTTP
	}
	var (
		all  []Text
		errs []error
		kind = string(step.Kind())
		seen = map[string]bool{}
	)
	for i, name := range files {
		texts, err := s.manifests(ctx, step, name, plainHTTP)
		errs = append(errs, err)
		for _, t := range texts {
			if t.File == "" || !seen[t.File] {
				t.Field = []any{kind, "files", i}
				all = append(all, t)
			}
			seen[t.File] = true
		}
	}
	if overlay != "" {
		text, err := s.overlay(ctx, step, overlay, plainHTTP)
		if errs = append(errs, err); err == nil {
			text.Field = []any{kind, "kustomize"}
			all = append(all, text)
		}
	}
	return all, errors.Join(errs...)
}

// manifests returns what a path, glob or address of a step leads to.
func (s *Store) manifests(ctx context.Context, step plan.Step, name string, plainHTTP bool) ([]Text, error) {
	switch {
	case name == plan.Stdin:
		text, err := s.input()
		return one(text, err)
	case strings.HasPrefix(name, "oci://"):
		return s.artifactManifests(ctx, name, plainHTTP)
	case plan.IsAddress(name):
		return one(s.remote(ctx, name))
	}
	paths, err := step.Files([]string{name})
	if err != nil {
		return nil, runner.Permanent(err)
	}
	var (
		all  []Text
		errs []error
	)
	for _, path := range paths {
		text, err := s.file(step, path)
		if errs = append(errs, err); err == nil {
			all = append(all, text)
		}
	}
	return all, errors.Join(errs...)
}

func one(t Text, err error) ([]Text, error) {
	if err != nil {
		return nil, err
	}
	return []Text{t}, nil
}

// Values returns the text of one of a step's values files.
func (s *Store) Values(ctx context.Context, step plan.Step, name string) (Text, error) {
	if plan.IsAddress(name) {
		return s.remote(ctx, name)
	}
	return s.file(step, step.Path(name))
}

// file reads a file of a step.
func (s *Store) file(step plan.Step, path string) (Text, error) {
	t := Text{Name: relative(step.Dir, path), File: path}
	if text, evaluated := step.Evaluated[path]; evaluated { // and decrypted
		var err error
		if t.Written, err = os.ReadFile(path); err != nil {
			return t, runner.Permanent(err)
		}
		t.Bytes = text
		return t, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return t, runner.Permanent(err)
	}
	defer f.Close()
	if t.Bytes, err = read(f, t.Name); err != nil {
		return t, err
	}
	t.Written = t.Bytes
	t.Bytes, err = s.decrypt(t.Name, t.Bytes)
	return t, err
}

// read reads a whole text, if it is not too large.
func read(r io.Reader, name string) ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return nil, runner.Permanent(fmt.Errorf("%s: %w", name, err))
	}
	if len(src) > maxText {
		return nil, runner.Permanent(fmt.Errorf("%s: larger than %d MiB", name, maxText>>20))
	}
	return src, nil
}

// relative is how a path is named that is below a folder.
func relative(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}

// remote fetches a file of a web server.
func (s *Store) remote(ctx context.Context, name string) (Text, error) {
	a, err := plan.ParseAddress(name)
	if err != nil {
		return Text{}, runner.Permanent(fmt.Errorf("%q %w", Public(name), err))
	}
	t := Text{Name: Public(a.URL)}
	if s == nil {
		return t, runner.Permanent(fmt.Errorf("%s: nothing is fetched here", t.Name))
	}
	got, err := s.File(ctx, File{URL: a.URL})
	if err != nil {
		return t, err
	}
	if a.Digest != "" && a.Digest != got.Digest {
		return t, runner.WithHint(runner.Permanent(fmt.Errorf("%s has another content than the plan wants: %s", t.Name, got.Digest)),
			"look at what changed, and then write its digest after # in the plan")
	}
	t.Bytes, err = s.decrypt(t.Name, got.Bytes)
	return t, err
}

// input returns what came by standard input, which is read once.
func (s *Store) input() (Text, error) {
	t := Text{Name: "standard input"}
	if s == nil || s.options.Stdin == nil {
		return t, runner.WithHint(runner.Permanent(errors.New("there is nothing on standard input, which the step reads its manifests from (-)")),
			"pipe them into it: generate | kplan …; each run reads it anew, one with --resume too")
	}
	s.stdin.once.Do(func() { s.stdin.bytes, s.stdin.err = read(s.options.Stdin, t.Name) })
	if s.stdin.err != nil {
		return t, s.stdin.err
	}
	if len(s.stdin.bytes) == 0 {
		return t, runner.WithHint(runner.Permanent(errors.New("standard input is empty, which the step reads its manifests from (-)")),
			"pipe them into it: generate | kplan …; each run reads it anew, one with --resume too")
	}
	var err error
	t.Bytes, err = s.decrypt(t.Name, s.stdin.bytes)
	return t, err
}

// decrypt returns a text of YAML or JSON in plain; what was encrypted in it is a secret.
func (s *Store) decrypt(name string, src []byte) ([]byte, error) {
	if s == nil || s.options.Keys == nil {
		return src, nil
	}
	text, secrets, err := s.options.Keys.Decrypt(src)
	if err != nil {
		return nil, locked(name, err)
	}
	s.hide(secrets)
	return text, nil
}

// locked is the error of a file that cannot be decrypted.
func locked(name string, err error) error {
	if e, is := errors.AsType[*sops.Error](err); is && e.Line > 0 {
		name = fmt.Sprintf("%s:%d:%d", name, e.Line, e.Column)
	}
	return runner.Permanent(fmt.Errorf("%s: %w", name, err))
}

// hide keeps values from being shown; it does so before anybody else has them.
func (s *Store) hide(secrets []any) {
	if s.options.Secrets == nil {
		return
	}
	for _, secret := range secrets {
		s.options.Secrets.Add(secret)
	}
}
