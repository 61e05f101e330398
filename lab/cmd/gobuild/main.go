// Command gobuild is go build that says how far it is, for the Makefile:
//
//	gobuild -name kplan -work 8m -C .. -o bin/kplan ./cmd/kplan -trimpath
//
// What follows the package are flags of go build. It links nothing but Go's own
// library, so that go run makes it in seconds on a machine that has built nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/kplan-dev/kplan/lab/internal/compile"
)

func main() {
	var p compile.Program
	flag.StringVar(&p.Name, "name", "", "what to call it")
	flag.DurationVar(&p.Work, "work", 0, "the CPU time that it takes with nothing in Go's cache")
	flag.StringVar(&p.Dir, "C", ".", "the folder to build in")
	flag.StringVar(&p.Output, "o", "", "the file to write, seen from there")
	flag.Parse()
	if flag.NArg() == 0 || p.Output == "" {
		flag.Usage()
		os.Exit(2)
	}
	p.Package, p.Flags = flag.Arg(0), flag.Args()[1:]
	if p.Name == "" {
		p.Name = filepath.Base(p.Output)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := p.Run(ctx, func(line string) { fmt.Fprintln(os.Stderr, line) })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
