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
	"strings"
	"unicode"
	"unicode/utf8"
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
		properties = append(properties, "file="+property(a.File))
		if a.Line > 0 {
			properties = append(properties, fmt.Sprintf("line=%d", a.Line))
		}
		if a.Line > 0 && a.Col > 0 {
			properties = append(properties, fmt.Sprintf("col=%d", a.Col))
		}
	}
	if a.Title != "" {
		properties = append(properties, "title="+property(a.Title))
	}
	command := string(cmp.Or(a.Level, Notice))
	if len(properties) > 0 {
		command += " " + strings.Join(properties, ",")
	}
	return "::" + command + "::" + data(cut(a.Message, MaxMessage))
}

// cut returns at most so many characters of a text.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Group returns the command that begins a group of lines, which is shown folded.
func Group(title string) string { return "::group::" + data(title) }

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
	if strings.Contains(s, "##[") {
		s = strings.ReplaceAll(s, "##[", "## [")
	}
	if !strings.Contains(s, "::") {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		text := strings.TrimLeftFunc(line, unicode.IsSpace)
		if strings.HasPrefix(text, "::") {
			lines[i] = line[:len(line)-len(text)] + ": " + text[1:]
		}
	}
	return strings.Join(lines, "\n")
}

// Place returns the path of a file as GitHub finds it: relative to the root of the
// repository when it is below that, with slashes. Without a root it is as it was
// given.
func Place(root, file string) string {
	if root == "" {
		return filepath.ToSlash(file)
	}
	full, err := filepath.Abs(file)
	if err != nil {
		return filepath.ToSlash(file)
	}
	rel, err := filepath.Rel(root, full)
	if err != nil || !filepath.IsLocal(rel) {
		return filepath.ToSlash(file)
	}
	return filepath.ToSlash(rel)
}

// The runner takes these escapes back.
var (
	forData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	forProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func data(s string) string     { return forData.Replace(s) }
func property(s string) string { return forProperty.Replace(s) }
