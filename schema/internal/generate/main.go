// Generate writes the JSON Schemas of plan files, of fleet files and of the events of both,
// from the types of packages plan, fleet and runner and their comments, and the pages of the
// documentation that have their fields. See package schema.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	of := flag.String("of", "plan", "what to describe: plan, events, fleet or fleet-events")
	root := flag.String("root", "..", "the folder of the module")
	page := flag.Bool("page", false, "write the page of the documentation instead of the schema")
	out := flag.String("o", "plan.schema.json", "the file to write")
	flag.Parse()
	b, err := write(*of, *root, *page)
	if err == nil {
		err = os.WriteFile(*out, b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// subject is what a schema and a page are made of.
type subject struct {
	schema func(sources) (*node, error)
	page   func(sources) ([]byte, error)
}

var subjects = map[string]subject{
	"plan":         {planSchema, planPage},
	"events":       {eventSchema, eventPage},
	"fleet":        {fleetSchema, fleetPage},
	"fleet-events": {fleetEventSchema, fleetEventPage},
}

// sources are the folders of the packages whose types are described.
type sources struct{ plan, runner, fleet string }

func write(of, root string, page bool) ([]byte, error) {
	s, ok := subjects[of]
	from := sources{filepath.Join(root, "plan"), filepath.Join(root, "runner"), filepath.Join(root, "fleet")}
	switch {
	case !ok:
		return nil, fmt.Errorf("-of %s is not known", of)
	case page:
		return s.page(from)
	}
	return indent(s.schema(from))
}
