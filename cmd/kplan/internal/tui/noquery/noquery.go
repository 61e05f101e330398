// Package noquery keeps bubbletea v1 from asking the terminal for its background
// colour whenever the program starts, whatever it is started for: the question would
// show up in the output of other commands, and the answer take away what was typed
// ahead. Version 2 does not ask.
//
// It must be initialised before bubbletea, and is because it imports nothing but os:
// packages that are ready are initialised in the order of their import paths, and
// bubbletea needs some that come after it. A terminal that is dumb is not asked.
// The package that imports bubbletea calls Restore in its init.
package noquery

import "os"

var term, known = os.LookupEnv("TERM")

func init() { _ = os.Setenv("TERM", "dumb") }

// Restore sets TERM to its value again.
func Restore() {
	if known {
		_ = os.Setenv("TERM", term)
	} else {
		_ = os.Unsetenv("TERM")
	}
}
