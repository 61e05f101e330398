// Generate writes the JSON Schemas of plan files and of events, from the types of
// packages plan and runner and their comments. See package schema.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	src := flag.String("plan", "../plan", "the folder of package plan")
	events := flag.String("events", "", "the folder of package runner, to write the schema of events instead")
	out := flag.String("o", "plan.schema.json", "the file to write")
	flag.Parse()
	b, err := generate(*src)
	if *events != "" {
		b, err = generateEvents(*events, *src)
	}
	if err == nil {
		err = os.WriteFile(*out, b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
