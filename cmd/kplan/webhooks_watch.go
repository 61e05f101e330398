package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/webhooks"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

const (
	// redraw is the least distance of two drawings of the table.
	redraw = 100 * time.Millisecond
	// tick is how often ages are drawn anew.
	tick = time.Second
)

// watch shows every change until ctx ends, or nobody reads any more.
func (l *listing) watch(ctx context.Context) error {
	out := tty.Unwrap(l.stdout)
	show := l.lines(out)
	if _, _, terminal := tty.Size(out); terminal && l.output != data.JSON {
		show = func() error { return l.draw(out) }
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if err := show(); errors.Is(err, syscall.EPIPE) {
			return nil
		} else if err != nil {
			return fmt.Errorf("writing the webhooks: %w", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(redraw):
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.changes:
		case <-ticker.C:
		}
	}
}

// draw writes the table over the one before, as much of it as the terminal holds.
func (l *listing) draw(out io.Writer) error {
	var table bytes.Buffer
	s := l.style()
	if all := l.all(); len(all) > 0 {
		_ = s.Table(&table, all) // a buffer takes all
	} else {
		table.WriteString("no webhooks found\n")
	}
	for _, text := range slices.Concat(l.view.Unreadable(), l.view.Polled()) {
		fmt.Fprintf(&table, "note: %s\n", words.Clean(text))
	}
	return overdraw(out, table.String())
}

// overdraw writes a text over the one before, as much of it as the terminal holds.
func overdraw(out io.Writer, text string) error {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if _, height, ok := tty.Size(out); ok && len(lines) > height-1 {
		lines = append(lines[:max(height-2, 1)], fmt.Sprintf("and %d more lines", len(lines)-height+2))
	}
	const home, clearLine, clearRest = "\x1b[H", "\x1b[K\r\n", "\x1b[J"
	_, err := io.WriteString(out, home+strings.Join(lines, clearLine)+clearLine+clearRest)
	return err
}

// change is what --watch -o json writes a line of.
type change struct {
	Time time.Time `json:"time"`
	// Type is added, changed or deleted.
	Type    string           `json:"type"`
	Webhook webhooks.Webhook `json:"webhook"`
}

// lines writes a line for each webhook that stands otherwise than when it was
// called last.
func (l *listing) lines(out io.Writer) func() error {
	known := map[string]webhooks.Webhook{}
	begun := false
	// Something new is being read for a moment, and says more after it. What
	// took too long to be read at first is shown as far as it is known.
	fresh := func() bool { return (begun || !l.partly) && !l.following.Synced() }
	return func() error {
		if fresh() {
			return nil
		}
		all := l.picked()
		if fresh() { // it came after the first look
			return nil
		}
		begun = true
		l.note(slices.Concat(l.view.Unreadable(), l.view.Polled())...)
		now := time.Now()
		here := map[string]bool{}
		var changes []change
		for _, w := range all {
			id := string(w.Kind) + " " + w.ID()
			here[id] = true
			before, old := known[id]
			switch {
			case !old:
				changes = append(changes, change{now, "added", w})
			case !l.same(before, w):
				changes = append(changes, change{now, "changed", w})
			}
			known[id] = w
		}
		for id, w := range known {
			if !here[id] {
				changes = append(changes, change{now, "deleted", w})
				delete(known, id)
			}
		}
		for _, c := range changes {
			if err := l.line(out, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// same reports whether two forms of a webhook make the same line but for its time.
func (l *listing) same(a, b webhooks.Webhook) bool {
	if l.output == data.JSON {
		return reflect.DeepEqual(a, b)
	}
	return l.style().Line(a) == l.style().Line(b)
}

func (l *listing) line(out io.Writer, c change) error {
	if l.output != data.JSON {
		_, err := fmt.Fprintf(out, "%s  %-7s  %s\n", c.Time.Format(time.TimeOnly), c.Type, l.style().Line(c.Webhook))
		return err
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = out.Write(append(data.Inert(b), '\n'))
	return err
}
