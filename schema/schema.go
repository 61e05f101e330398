// Package schema has the JSON Schema of plan files, for editors and for programs
// that write plans.
//
// It is made from the types of package plan. It says less than plan.Load: what
// takes more than one place of the file to judge, such as the names in needs, is
// not in it.
package schema

import _ "embed"

//go:generate go run ./internal/generate -plan ../plan -o plan.schema.json

// Plan is the schema of a plan file, draft-07, with a final newline.
//
//go:embed plan.schema.json
var Plan []byte
