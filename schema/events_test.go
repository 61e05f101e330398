package schema_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/schema"
)

func validate(t *testing.T, s *jsonschema.Schema, line string) error {
	t.Helper()
	event, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	require.NoError(t, err)
	return s.Validate(event)
}

// Every event of every recorded run is valid, of a plan's and of a fleet's.
func TestRecordedEvents(t *testing.T) {
	files, err := filepath.Glob("../cmd/kplan/internal/*/testdata/events/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	fleets := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return !strings.Contains(file, "fleetview") })
	require.NotEmpty(t, fleets)
	files = slices.DeleteFunc(files, func(file string) bool { return slices.Contains(fleets, file) })
	require.GreaterOrEqual(t, len(met(t, schema.Events, files)), 11, "the recorded runs have nearly every type")
	require.GreaterOrEqual(t, len(met(t, schema.FleetEvents, fleets)), 6, "so have those of fleets")
}

// met are the types of the events of files, each of which is valid.
func met(t *testing.T, by []byte, files []string) map[string]bool {
	t.Helper()
	s := compile(t, by)
	met := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			require.NoError(t, validate(t, s, lines.Text()), "%s: %s", file, lines.Text())
			var e struct{ Type string }
			require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
			met[e.Type] = true
		}
		require.NoError(t, lines.Err())
	}
	return met
}

// The examples of docs/reference/events.md are events.
func TestDocumentedEvents(t *testing.T) {
	s := compile(t, schema.Events)
	b, err := os.ReadFile("../docs/reference/events.md")
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, `{"seq":`) {
			n++
			require.NoError(t, validate(t, s, strings.Replace(line, "…", "2026-01-01T00:00:00Z", 1)), line)
		}
	}
	require.NotZero(t, n)
}

func TestNoEvents(t *testing.T) {
	s := compile(t, schema.Events)
	for name, line := range map[string]string{
		"no number":              `{"time":"2026-01-01T00:00:00Z","type":"log","step":"a","message":"m"}`,
		"number 0":               `{"seq":0,"time":"2026-01-01T00:00:00Z","type":"log","step":"a","message":"m"}`,
		"no time":                `{"seq":1,"time":"noon","type":"log","step":"a","message":"m"}`,
		"no such type":           `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"lag","step":"a"}`,
		"a state without one":    `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"state","step":"a"}`,
		"no such state":          `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"state","step":"a","state":"good"}`,
		"held by nothing":        `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"held","step":"a"}`,
		"a webhook of no name":   `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"held","step":"a","webhook":{}}`,
		"a plan without steps":   `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"plan","version":1,"plan":"p"}`,
		"a need of no known end": `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"plan","version":1,"plan":"p","steps":[{"name":"a","kind":"apply","needs_on":{"b":"maybe"}}]}`,
	} {
		require.Error(t, validate(t, s, line), name)
	}
	more := `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"log","step":"a","message":"m","of_later":true}`
	require.NoError(t, validate(t, s, more), "a field that comes later is no fault")
}
