// Package scaffold writes plans to start from: one that explains itself, and one
// of the Helm releases that a cluster has.
//
// It reads no cluster and writes no files.
package scaffold

import (
	_ "embed"
	"strings"
)

//go:embed blank.yaml
var blank string

// Blank is a plan with comments and a step of each common kind. It is valid as it
// is.
func Blank(schema string) []byte { return []byte(modeline(schema) + blank) }

// modeline tells editors where the schema is, as a path relative to the plan or as
// an address; "" is none.
func modeline(schema string) string {
	if schema == "" {
		return ""
	}
	return "# yaml-language-server: $schema=" + schema + "\n"
}

// label makes a name that a plan or step can have; "" when nothing is left.
func label(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	return strings.Trim(name[:min(len(name), 63)], "-")
}
