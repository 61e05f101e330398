// Generate writes the JSON Schemas of plan files and of events, from the types of
// packages plan and runner and their comments, and the pages of the documentation
// that have their fields. See package schema.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	src := flag.String("plan", "../plan", "the folder of package plan")
	events := flag.String("events", "", "the folder of package runner, to write the schema of events instead")
	page := flag.Bool("page", false, "write the page of the documentation instead of the schema")
	out := flag.String("o", "plan.schema.json", "the file to write")
	flag.Parse()
	b, err := write(*src, *events, *page)
	if err == nil {
		err = os.WriteFile(*out, b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func write(plan, events string, page bool) ([]byte, error) {
	switch {
	case events != "" && page:
		return eventPage(events, plan)
	case events != "":
		return generateEvents(events, plan)
	case page:
		return planPage(plan)
	}
	return generate(plan)
}
