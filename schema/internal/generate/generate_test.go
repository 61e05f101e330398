package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The schemas in the repository are what the types and their comments say now.
func TestUpToDate(t *testing.T) {
	for of := range subjects {
		got, err := write(of, "../../..", false)
		require.NoError(t, err, of)
		want, err := os.ReadFile("../../" + of + ".schema.json")
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s.schema.json is stale: run go generate ./schema", of)
	}
}

// The pages of the documentation have every field, type and default as they are.
func TestPagesUpToDate(t *testing.T) {
	for of, file := range map[string]string{
		"plan": "plan-fields.md", "events": "event-fields.md", "fleet": "fleet-fields.md", "fleet-events": "fleet-event-fields.md",
	} {
		got, err := write(of, "../../..", true)
		require.NoError(t, err, of)
		want, err := os.ReadFile("../../../docs/reference/" + file)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is stale: run go generate ./schema", file)
	}
}
