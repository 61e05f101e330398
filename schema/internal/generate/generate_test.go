package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The schema in the repository is what the types and their comments say now.
func TestUpToDate(t *testing.T) {
	got, err := generate("../../../plan")
	require.NoError(t, err)
	want, err := os.ReadFile("../../plan.schema.json")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "plan.schema.json is stale: run go generate ./schema")
}

func TestEventsUpToDate(t *testing.T) {
	got, err := generateEvents("../../../runner", "../../../plan")
	require.NoError(t, err)
	want, err := os.ReadFile("../../events.schema.json")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "events.schema.json is stale: run go generate ./schema")
}

// The pages of the documentation have every field, type and default as they are.
func TestPagesUpToDate(t *testing.T) {
	for file, make := range map[string]func() ([]byte, error){
		"plan-fields.md":  func() ([]byte, error) { return planPage("../../../plan") },
		"event-fields.md": func() ([]byte, error) { return eventPage("../../../runner", "../../../plan") },
	} {
		got, err := make()
		require.NoError(t, err)
		want, err := os.ReadFile("../../../docs/reference/" + file)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is stale: run go generate ./schema", file)
	}
}
