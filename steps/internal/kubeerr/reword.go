package kubeerr

// Reword returns an error that says text, and has causes in its chain.
func Reword(text string, causes ...error) error { return &reworded{text, causes} }

type reworded struct {
	text   string
	causes []error
}

func (e *reworded) Error() string   { return e.text }
func (e *reworded) Unwrap() []error { return e.causes }
