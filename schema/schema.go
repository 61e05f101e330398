// Package schema has the JSON Schemas of plan files, for editors and for programs
// that write plans, and of a run's events, for programs that read them.
//
// They are made from the types of packages plan and runner. That of plans says less than load.File: what
// takes more than one place of the file to judge, such as the names in needs, is
// not in it.
package schema

import _ "embed"

//go:generate go run ./internal/generate -plan ../plan -o plan.schema.json
//go:generate go run ./internal/generate -plan ../plan -events ../runner -o events.schema.json
//go:generate go run ./internal/generate -plan ../plan -page -o ../docs/reference/plan-fields.md
//go:generate go run ./internal/generate -plan ../plan -events ../runner -page -o ../docs/reference/event-fields.md

// Plan is the schema of a plan file, draft-07, with a final newline.
//
//go:embed plan.schema.json
var Plan []byte

// Events is the schema of one event, draft-07, with a final newline: of one line of
// what kplan run --record writes.
//
//go:embed events.schema.json
var Events []byte
