package plan

import "github.com/kplan-dev/kplan/plan/document"

// Locate returns where a field of the step stands. See document.Text.Place.
func (s Step) Locate(fields ...any) document.Place { return s.Origin.Place(fields...) }
