// Generate writes the JSON Schema of plan files, from the types of package plan
// and their comments. See package schema.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	src := flag.String("plan", "../plan", "the folder of package plan")
	out := flag.String("o", "plan.schema.json", "the file to write")
	flag.Parse()
	b, err := generate(*src)
	if err == nil {
		err = os.WriteFile(*out, b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
