package plan

import "github.com/kplan-dev/kplan/plan/document"

// origin is where a step was read.
type origin struct {
	text *document.Text
	at   document.Path
}

// Texts are the files that the plan was read from: its own first, then those of
// the plans that it includes. Var files are not among them.
func (p *Plan) Texts() []*document.Text { return p.texts }

// Origin is the file that a step was read from and the path of the step in it.
// Steps made of one by for_each share it. The file is nil for a step that was not
// read from one.
func (s Step) Origin() (*document.Text, []any) { return s.origin.text, s.origin.at }

// Locate gives where a field of the step stands. See Text.Place.
func (s Step) Locate(fields ...any) document.Place {
	if s.origin.text == nil {
		return document.Place{Path: document.Path(fields).String()}
	}
	return s.origin.text.Place(append(append([]any{}, s.origin.at...), fields...)...)
}
