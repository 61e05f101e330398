package runner

// Finding is something that may keep steps from their work, as it was found before that
// happened.
type Finding struct {
	// Code is the rule that it breaks, such as cluster-rights.
	Code string `json:"code"`
	// Severity is error, warning or note.
	Severity string `json:"severity"`
	// File, Line and Column are where the plan says what it is about; File is empty when
	// that is nowhere. Line and Column count from 1.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Evidence is what was read of the cluster.
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is one field of an object that a finding rests on.
type Evidence struct {
	// Object is the object, as Kind/namespace/name.
	Object string `json:"object"`
	// Field is its path, and Value what it has, for people.
	Field string `json:"field"`
	Value string `json:"value"`
}

// Found is a finding with what its event says beside it.
type Found struct {
	Finding
	// Step is the step that it concerns, Object what it is about in a cluster; each may be
	// empty.
	Step, Object string
	// Message and Hint say what is wrong, and what can be done.
	Message, Hint string
}

// event is the event that tells of it.
func (f Found) event() Event {
	return Event{Type: TypeFinding, Step: f.Step, Object: f.Object, Message: f.Message, Hint: f.Hint, Finding: &f.Finding}
}
