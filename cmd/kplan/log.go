package main

import (
	"flag"
	"io"
	"log"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan/redact"
)

// mostVerbose is the highest level of the Kubernetes client's log that shows
// no bodies of requests, and so no Secrets.
const mostVerbose = 7

// logging sends what libraries log to stderr with -v, and else nowhere: what
// matters comes as events.
func (a *app) logging() {
	out := io.Discard
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	set := func(name, value string) { _ = fs.Set(name, value) } // klog's own names and values: they cannot fail
	set("logtostderr", "false")
	set("stderrthreshold", "FATAL")
	if a.verbosity > 0 {
		set("v", strconv.Itoa(min(a.verbosity, mostVerbose)))
		out = cleaner{a.stderr, a.secrets}
	} else {
		rest.SetDefaultWarningHandler(rest.NoWarnings{})
	}
	klog.SetOutput(out)
	log.SetOutput(out)
}

// cleaner takes out of what is written what must not be shown, and what a terminal
// might obey. Each Write is of a whole message, as loggers do it.
type cleaner struct {
	out     io.Writer
	secrets func() *redact.Set
}

func (c cleaner) Write(b []byte) (int, error) {
	if _, err := io.WriteString(c.out, words.Clean(c.secrets().Text(string(b)))); err != nil {
		return 0, err
	}
	return len(b), nil
}
