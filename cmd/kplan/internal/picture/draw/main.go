// Draw writes the moving picture of a recorded run: draw RUN.jsonl >run.svg. The
// pictures of the documentation come from the test of package picture, with -update.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/picture"
	"github.com/kplan-dev/kplan/ledger"
)

func main() {
	time.Local = time.UTC // the log shows local times, and the picture is the same everywhere
	if err := draw(); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

func draw() error {
	t := picture.Take{Version: "0.1.0"}
	var about picture.About
	flag.IntVar(&t.Columns, "columns", 88, "columns of the terminal")
	flag.IntVar(&t.Rows, "rows", 16, "rows of the terminal")
	flag.StringVar(&t.Command, "command", "kplan run plan.yaml", "what is typed to begin with")
	flag.StringVar(&about.Title, "title", "A run of kplan", "what the picture is called")
	flag.StringVar(&about.Text, "desc", "A terminal in which kplan runs a plan.", "what the picture shows, for those who do not see it")
	dark := flag.Bool("dark", false, "for dark pages")
	flag.Parse()
	if flag.NArg() != 1 {
		return errors.New("name one record: draw RUN.jsonl")
	}
	events, err := ledger.ReadEvents(flag.Arg(0))
	if err != nil {
		return err
	}
	theme := picture.Light
	if *dark {
		theme = picture.Dark
	}
	film := t.Run(events)
	return film.SVG(os.Stdout, theme, about)
}
