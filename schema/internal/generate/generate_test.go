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
