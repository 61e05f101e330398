package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

var timelines = flag.String("timeline", "", "write what happened in each install, in its order, to a file of this `folder`")

// trace is what happened in one install; times are told from the floor.
type trace struct {
	at   time.Time
	what string
}

// write writes the timeline of an install, when that was asked for.
func (i *install) write(n int) error {
	if *timelines == "" {
		return nil
	}
	all := []trace{{i.listening, "webhook listens"}, {i.ready, "pod is Ready"}, {i.backed, "EndpointSlice is ready"}, {i.at, "floor"}}
	for _, a := range i.answers {
		text := "admitted"
		if a.verdict != admitted {
			text = a.text[max(0, len(a.text)-160):]
		}
		all = append(all, trace{a.arrived, fmt.Sprintf("dry-run after %.1f ms: %s", ms(a.arrived.Sub(a.sent)), text)})
	}
	for _, e := range i.events {
		all = append(all, traceOf(e))
	}
	return writeTraces(fmt.Sprintf("install-%02d.txt", n), i.at, all)
}

func traceOf(e runner.Event) trace {
	text := fmt.Sprintf("kplan: %s %s %s %s", e.Type, e.State, e.Object, e.Message)
	if e.Webhook != nil {
		text += fmt.Sprintf(" %s, sent %d times", e.Webhook.Cause, e.Webhook.Sends)
	}
	return trace{e.Time, text}
}

// writeTraces writes what happened into a file of the folder, in its order.
func writeTraces(file string, floor time.Time, all []trace) error {
	slices.SortStableFunc(all, func(a, b trace) int { return a.at.Compare(b.at) })
	var out strings.Builder
	for _, t := range all {
		fmt.Fprintf(&out, "%+9.1f ms  %s\n", ms(t.at.Sub(floor)), t.what)
	}
	return os.WriteFile(filepath.Join(*timelines, file), []byte(out.String()), 0o644)
}

// of gives the events of a type.
func of(events []runner.Event, t runner.Type) []runner.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e runner.Event) bool { return e.Type != t })
}
