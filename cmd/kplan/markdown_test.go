package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fence is a block of code in a page of the documentation.
type fence struct {
	file, lang string
	line       int // of the first line of text
	// info is what stands behind the language: [FILE] names the file that the block
	// is, unchecked="REASON" says why nothing checks it.
	info string
	text string
}

var (
	fenceLine = regexp.MustCompile("^( *)```(\\S*) ?(.*)$")
	fileMark  = regexp.MustCompile(`^\[(\S+)\]`)
	unchecked = regexp.MustCompile(`unchecked="([^"]+)"`)
)

// fences are the blocks of a page, in their order, without their indentation.
func fences(t *testing.T, file string) []fence {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var all []fence
	var open *fence
	indent := ""
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		m := fenceLine.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			indent = m[1]
			open = &fence{file: filepath.ToSlash(file), lang: m[2], info: m[3], line: n + 1}
		case open != nil && m != nil && m[2] == "" && m[3] == "":
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	require.Nil(t, open, "%s: a block of code does not end", file)
	return all
}

// A prompted command is one that a console block shows, and what it writes there.
type prompted struct {
	command string
	output  []string
	line    int
}

// session are the commands of a console block. A command goes on while its lines
// end with a backslash, && or |.
func (f fence) session() []prompted {
	var all []prompted
	more := false
	for i, line := range strings.Split(strings.TrimSuffix(f.text, "\n"), "\n") {
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case more:
			all[len(all)-1].command += "\n" + line
			command = line
		case is:
			all = append(all, prompted{command: command, line: f.line + i})
		case len(all) > 0:
			last := &all[len(all)-1]
			last.output = append(last.output, line)
			continue
		default:
			continue
		}
		more = strings.HasSuffix(command, "\\") || strings.HasSuffix(command, "&&") || strings.HasSuffix(command, "|")
	}
	return all
}
