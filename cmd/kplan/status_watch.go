package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
)

// watch looks again and again until ctx ends, or nobody reads any more.
func (l *outlook) watch(ctx context.Context) error {
	out := tty.Unwrap(l.stdout)
	show := l.lines(out)
	if _, _, terminal := tty.Size(out); terminal && l.output != data.JSON {
		show = func(st *standing) error { return overdraw(out, l.table(st)) }
	}
	for {
		st, err := l.look(ctx)
		if err == nil {
			err = show(st)
		}
		switch {
		case errors.Is(err, syscall.EPIPE):
			return nil
		case err != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(l.interval):
		}
	}
}

// turn is what --watch -o json writes a line of.
type turn struct {
	Time time.Time    `json:"time"`
	Step stepStanding `json:"step"`
}

// lines writes a line for each step that stands otherwise than before.
func (l *outlook) lines(out io.Writer) func(*standing) error {
	known := map[string]string{}
	return func(st *standing) error {
		for _, s := range st.Steps {
			row := l.row(s)
			line := strings.Join(slices.DeleteFunc([]string{row[0], row[2], row[3], row[4], row[6]}, func(c string) bool { return c == "-" || c == "" }), "  ")
			if known[s.Name] == line {
				continue
			}
			known[s.Name] = line
			now := time.Now()
			text := fmt.Sprintf("%s  %s\n", now.Format(time.TimeOnly), line)
			if l.output == data.JSON {
				b, err := json.Marshal(turn{now, s})
				if err != nil {
					return err
				}
				text = string(append(data.Inert(l.secrets().JSON(b)), '\n'))
			}
			if _, err := io.WriteString(out, text); err != nil {
				return err
			}
		}
		return nil
	}
}
