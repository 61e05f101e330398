package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/runner"
)

var update = flag.Bool("update", false, "write the pictures of the documentation anew")

const docs = "../../../../docs/pictures"

// The pictures of the documentation are what the recorded race gives: a wide one, and
// one for phones.
func TestPictures(t *testing.T) {
	events, err := ledger.ReadEvents("../../../../lab/race/run.jsonl")
	require.NoError(t, err)
	about := About{
		Title: "kplan runs lab/race/plan.yaml",
		Text: "A terminal in which kplan installs one chart with an operator and its webhook. " +
			"The step race is holding: five requests wait until the webhook answers. Then both steps succeed, after ten seconds and one attempt.",
	}
	for _, size := range []struct {
		name          string
		columns, rows int
	}{{"wide", 88, 14}, {"narrow", 42, 17}} {
		film := Take{Columns: size.columns, Rows: size.rows, Command: "kplan run lab/race/plan.yaml", Version: "0.1.0"}.Run(events)
		for theme, colours := range map[string]Theme{"light": Light, "dark": Dark} {
			name := "race-" + size.name + "-" + theme + ".svg"
			t.Run(name, func(t *testing.T) {
				var b bytes.Buffer
				require.NoError(t, film.SVG(&b, colours, about))
				golden(t, filepath.Join(docs, name), b.Bytes())
				require.Less(t, b.Len(), 200_000)
				wellFormed(t, b.Bytes())
				require.NotContains(t, b.String(), "<script")
			})
		}
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "%s is stale: go test -short ./cmd/kplan/internal/picture -update", file)
}

func wellFormed(t *testing.T, b []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

// Readers who ask for less motion see a hold, if there was one.
func TestStill(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	events := []runner.Event{
		{Seq: 1, Time: begin, Type: runner.TypePlan, Plan: "p", Steps: []runner.StepInfo{{Name: "a", Kind: "helm"}}},
		{Seq: 2, Time: begin, Type: runner.TypeState, Step: "a", State: runner.StateRunning, Attempt: 1},
		{Seq: 3, Time: begin.Add(time.Second), Type: runner.TypeState, Step: "a", State: runner.StateHolding, Attempt: 1},
		{Seq: 4, Time: begin.Add(3 * time.Second), Type: runner.TypeState, Step: "a", State: runner.StateSucceeded, Attempt: 1},
		{Seq: 5, Time: begin.Add(4 * time.Second), Type: runner.TypeDone, State: runner.StateSucceeded},
	}
	take := Take{Columns: 60, Rows: 10, Command: "kplan run"}
	film := take.Run(events)
	require.Contains(t, strings.Join(film.Frames[film.Still].Lines, "\n"), "holding")
	require.Equal(t, film, take.Run(events), "the same events give the same film")

	film = take.Run(append(events[:2:2], events[3:]...))
	require.Equal(t, len(film.Frames)-1, film.Still, "without a hold it is the end")
}

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		line string
		want []span
	}{
		{"", nil},
		{"   ", nil},
		{"  plain text ", []span{{2, "plain text", ""}}},
		{"\x1b[1;36ma\x1b[0m \x1b[2mb\x1b[0m", []span{{0, "a", "b c36"}, {2, "b", "d"}}},
		{"漢 \x1b[31mx\x1b[0m", []span{{0, "漢", ""}, {3, "x", "c31"}}},
	} {
		require.Equal(t, c.want, spans(c.line), "%q", c.line)
	}
}

// Text can be read on its ground: WCAG asks for a contrast of 4.5.
func TestContrast(t *testing.T) {
	for name, theme := range map[string]Theme{"light": Light, "dark": Dark} {
		for _, c := range []string{theme.Text, theme.Dim, theme.Red, theme.Green, theme.Yellow, theme.Blue, theme.Violet, theme.Cyan} {
			a, b := luminance(t, c), luminance(t, theme.Ground)
			require.GreaterOrEqual(t, (max(a, b)+0.05)/(min(a, b)+0.05), 4.5, "%s of %s", c, name)
		}
	}
}

// luminance is how bright a colour is, from 0 to 1, as WCAG counts.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(colour[1:], 16, 32)
	require.NoError(t, err)
	sum := 0.0
	for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
		c := float64(n>>(8*i)&0xff) / 255
		if c <= 0.03928 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
