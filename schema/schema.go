// Package schema has the JSON Schemas of plan files and of fleet files, for editors and for
// programs that write them, and of a run's events, for programs that read them.
//
// They are made from the types of packages plan, fleet and runner. Those of files say less than load.File: what
// takes more than one place of the file to judge, such as the names in needs, is
// not in it.
package schema

import _ "embed"

//go:generate go run ./internal/generate -of plan -o plan.schema.json
//go:generate go run ./internal/generate -of plan -page -o ../docs/reference/plan-fields.md
//go:generate go run ./internal/generate -of events -o events.schema.json
//go:generate go run ./internal/generate -of events -page -o ../docs/reference/event-fields.md
//go:generate go run ./internal/generate -of fleet -o fleet.schema.json
//go:generate go run ./internal/generate -of fleet -page -o ../docs/reference/fleet-fields.md
//go:generate go run ./internal/generate -of fleet-events -o fleet-events.schema.json
//go:generate go run ./internal/generate -of fleet-events -page -o ../docs/reference/fleet-event-fields.md

// Plan is the schema of a plan file, draft-07, with a final newline.
//
//go:embed plan.schema.json
var Plan []byte

// Events is the schema of one event, draft-07, with a final newline: of one line of
// what kplan run --record writes.
//
//go:embed events.schema.json
var Events []byte

// Fleet is the schema of a fleet file, draft-07, with a final newline.
//
//go:embed fleet.schema.json
var Fleet []byte

// FleetEvents is the schema of one event of a fleet's run, draft-07, with a final newline.
//
//go:embed fleet-events.schema.json
var FleetEvents []byte
