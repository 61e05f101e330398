package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/internal/files"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
	"github.com/kplan-dev/kplan/plan/load/internal/vars"
)

// maxEvaluated bounds the files that steps evaluate, all together, in bytes: each step of
// a for_each has its own.
const maxEvaluated = 64 << 20

// template is a file whose expressions are evaluated.
type template struct {
	docs []templateDoc
	bad  bool // a fault of it is reported
}

// templateDoc is one document of a template; its tree is nil when it is empty.
type templateDoc struct {
	document.Part
	source *document.Source
	tree   any
}

// evaluate resolves the expressions in the files of a step that wants it. What a file
// that is not there means is told by others.
func (p *pass) evaluate(it *instance, s *scope) {
	names, at := evaluated(it.step)
	if len(names) == 0 || !p.onDisk {
		return
	}
	x := expander{pass: p, scope: s, skip: p.skip || it.skip, foreign: true}
	for _, name := range plan.Paths(names) {
		found, err := files.Expand(p.plan.Dir, name)
		if name == "" || err != nil {
			continue
		}
		for _, file := range found {
			t := p.template(file, it.decl.at.Key(at[0]).Key(at[1]))
			if t.bad {
				continue
			}
			text := x.template(t)
			if p.sum.evaluated += len(text); p.sum.evaluated > maxEvaluated {
				p.ReportField(fault{At: it.decl.at.Key(at[0]).Key("evaluate"), Hint: "evaluate smaller files, or for fewer steps"}, "the steps evaluate more than %d MiB of files", maxEvaluated>>20)
				return
			}
			if it.step.Evaluated == nil {
				it.step.Evaluated = map[string][]byte{}
			}
			it.step.Evaluated[file] = text
		}
	}
}

// evaluated are the files whose expressions a step wants evaluated, and the fields that
// name them.
func evaluated(s plan.Step) (names, at []string) {
	switch {
	case s.Helm != nil && s.Helm.Evaluate:
		return s.Helm.ValuesFiles, []string{"helm", "values_files"}
	case s.Apply != nil && s.Apply.Evaluate:
		return s.Apply.Files, []string{"apply", "files"}
	case s.Delete != nil && s.Delete.Evaluate:
		return s.Delete.Files, []string{"delete", "files"}
	}
	return nil, nil
}

// template reads a file, once in a session. at is where a step names it.
func (p *pass) template(file string, at path) *template {
	if t := p.templates[file]; t != nil {
		return t
	}
	t := &template{}
	if p.templates == nil {
		p.templates = map[string]*template{}
	}
	p.templates[file] = t
	src, err := files.ReadPlain(file, document.MaxSize)
	if err != nil {
		t.bad = true
		p.Report(fault{Code: document.CodeFile, At: at}, "%s", cannotUse("file", p.plan.Rel(file), files.Reason(err)))
		return t
	}
	name, o := p.plan.Rel(file), document.Options{Order: 2<<20 + len(p.templates), Private: aSecret.Match(src)}
	if p.decrypt != nil {
		var secrets []any
		encrypted := src
		if src, secrets, err = p.decrypt(src); err != nil {
			t.bad = true
			vars.ReportDecrypt(p.faults, document.NewSource(name, encrypted, o, p.faults), err)
			return t
		}
		for _, secret := range secrets {
			p.faults.Secrets.Add(secret)
			o.Private = true
		}
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	for _, part := range document.Split(src) {
		doc := templateDoc{Part: part}
		if part.Line > 0 {
			// The lines before it are left blank, so that positions are those of the file.
			var ok bool
			doc.source, doc.tree, ok = document.Read(name, append(bytes.Repeat([]byte("\n"), part.Begin-1), part.Text...), o, p.faults)
			t.bad = t.bad || !ok
		}
		t.docs = append(t.docs, doc)
	}
	return t
}

// template returns the text of a template with its expressions resolved: each document
// is JSON on the line that it began at.
func (x *expander) template(t *template) []byte {
	var out bytes.Buffer
	line := 1
	to := func(n int) {
		for ; line < n; line++ {
			out.WriteByte('\n')
		}
	}
	for i, doc := range t.docs {
		to(doc.Begin)
		if i > 0 {
			out.WriteString("--- ")
		}
		if doc.Line == 0 {
			continue
		}
		in := *x
		in.pass = &pass{x.session, x.file, document.Reporter{Faults: x.faults, Source: doc.source}}
		v := in.expand(doc.tree, nil)
		to(doc.Line)
		out.Write(flow(v))
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// flow writes a value on one line, as JSON that is YAML too. What is not known is null.
func flow(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(nullUnsaid(v)); err != nil { // what was read from YAML is always written
		return []byte("null")
	}
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		if r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff { // YAML has them escaped
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return []byte(out.String())
}

// nullUnsaid returns a copy of v with null for what is not known.
func nullUnsaid(v any) any {
	switch v := v.(type) {
	case value.Invalid, value.Deferred:
		return nil
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = nullUnsaid(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = nullUnsaid(e)
		}
		return l
	}
	return v
}
