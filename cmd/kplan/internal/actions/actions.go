// Package actions writes what the runner of GitHub Actions understands: groups
// of lines, annotations, and text that it does not take for a command.
//
// It does not decide what is worth an annotation, and reads no environment.
// What the runner does with a line is in its source:
// https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
package actions

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// MaxAnnotations is how many annotations of one level the runner takes from
	// one step of a job; it drops the others without a word.
	MaxAnnotations = 10
	// MaxMessage is how many characters of an annotation the runner keeps
	// (_maxIssueMessageLength in its ExecutionContext.cs).
	MaxMessage = 4096
)

// Level is how an annotation is shown.
type Level string

// The levels.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Notice  Level = "notice"
)

// Annotation is a message at a place in a file of the repository.
type Annotation struct {
	Level Level
	// File is the path as Place gives it; "" for a message without a place.
	File string
	// Line and Col count from 1; 0 when they are not known.
	Line, Col int
	Title     string
	// Message may have several lines.
	Message string
}

// String returns the workflow command, without a newline.
func (a Annotation) String() string {
	var properties []string
	if a.File != "" {
		properties = append(properties, "file="+forProperty.Replace(a.File))
		if a.Line > 0 {
			properties = append(properties, fmt.Sprintf("line=%d", a.Line))
		}
		if a.Line > 0 && a.Col > 0 {
			properties = append(properties, fmt.Sprintf("col=%d", a.Col))
		}
	}
	if a.Title != "" {
		properties = append(properties, "title="+forProperty.Replace(a.Title))
	}
	command := string(cmp.Or(a.Level, Notice))
	if len(properties) > 0 {
		command += " " + strings.Join(properties, ",")
	}
	message := a.Message
	if r := []rune(message); len(r) > MaxMessage {
		message = string(r[:MaxMessage-1]) + "…"
	}
	return "::" + command + "::" + forData.Replace(message)
}

// Group returns the command that begins a group of lines, which is shown folded.
func Group(title string) string { return "::group::" + forData.Replace(title) }

// EndGroup is the command that ends a group.
const EndGroup = "::endgroup::"

// Inert returns text, of one or several lines, in which the runner sees no
// command: it puts a space into what it would take for one. That is :: at the
// start of a line, and ##[ anywhere, the form that commands had before.
//
// Commands could be stopped for a while instead (::stop-commands::), but then one
// more must start them again, and a program that is killed in between takes them
// from all that follows in the same step of the job.
func Inert(s string) string {
	return command.ReplaceAllString(strings.ReplaceAll(s, "##[", "## ["), "$1: :")
}

// command is a :: at the start of a line, after spaces as unicode.IsSpace has them.
var command = regexp.MustCompile(`(?m)^([\t\v\f\r\x{85}\pZ]*)::`)

// Place returns the path of a file as GitHub finds it: relative to the root of the
// repository when it is below that, with slashes. Without a root it is as it was
// given.
func Place(root, file string) string {
	if full, err := filepath.Abs(file); err == nil && root != "" {
		if rel, err := filepath.Rel(root, full); err == nil && filepath.IsLocal(rel) {
			file = rel
		}
	}
	return filepath.ToSlash(file)
}

// The runner takes these escapes back.
var (
	forData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	forProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
