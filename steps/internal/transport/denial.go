package transport

import (
	"strings"

	"github.com/kplan-dev/kplan/webhook/hold"
)

// denial is an object that a webhook refused.
type denial struct {
	object  string
	message string
}

func (a *Attempt) deny(n hold.Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denials = append(a.denials, denial{n.Request.String(), n.Fault.Message})
}

// deniedError is an error of an action that names the objects which webhooks
// refused: the API server's answer does not, and Helm adds nothing.
type deniedError struct {
	text string
	err  error
}

func (e *deniedError) Error() string { return e.text }
func (e *deniedError) Unwrap() error { return e.err }

// NameDenied adds to err the objects that it is about, where it does not name them.
func (a *Attempt) NameDenied(err error) error {
	if err == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var texts []string
	for _, d := range a.denials {
		text := d.object + ": " + d.message
		if strings.Contains(err.Error(), d.message) && !strings.Contains(err.Error(), text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return err
	}
	return &deniedError{strings.Join(texts, "; "), err}
}
