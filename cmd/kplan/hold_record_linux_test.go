package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// reportNames are the files of the kinds of reports.
var reportNames = map[string]string{"html": "run.html", "junit": "run.xml", "markdown": "run.md", "json": "run.json"}

// ofRecord is what a report says more when it is made of a record.
var ofRecord = map[string]*regexp.Regexp{
	"html":     regexp.MustCompile(`<dt>Record</dt><dd>[^<]+/run\.jsonl</dd>`),
	"junit":    regexp.MustCompile(` *<property name="kplan\.record" value="[^"]+/run\.jsonl"></property>\n`),
	"markdown": regexp.MustCompile(` · from .+/run\.jsonl`),
	"json":     regexp.MustCompile(` *"record": "[^"]+/run\.jsonl",\n`),
}

// recordTo makes the flags that record into a folder and report there.
func recordTo(dir string) []string {
	flags := []string{"--record", filepath.Join(dir, "run.jsonl")}
	for kind, name := range reportNames {
		flags = append(flags, "--report", kind+"="+filepath.Join(dir, name))
	}
	return flags
}

// replays plays what a hold recorded into a folder, as plain text, and requires that
// the reports of the record are those of the hold.
func replays(t *testing.T, dir string) string {
	t.Helper()
	record, again := filepath.Join(dir, "run.jsonl"), t.TempDir()
	flags := []string{"replay", record, "--progress", "plain"}
	for kind, name := range reportNames {
		flags = append(flags, "--report", kind+"="+filepath.Join(again, name))
	}
	out, err := command(t, flags...).CombinedOutput()
	require.NoError(t, err, string(out))
	for kind, name := range reportNames {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(again, name))
		require.NoError(t, err)
		require.Regexp(t, ofRecord[kind], string(got))
		require.True(t, bytes.Equal(want, ofRecord[kind].ReplaceAll(got, nil)), "%s differs", name)
	}
	return string(out)
}

// What was recorded is replayed as it was shown, with the command as the one step.
func TestHoldRecords(t *testing.T) {
	for script, want := range map[string]string{"exit 0": "sh  succeeded", "exit 7": "error: step \"sh\": exit code 7"} {
		dir := t.TempDir()
		h := hold(t, script, append(recordTo(dir), "--progress", "plain")...)
		require.NoError(t, h.cmd.Start())
		h.code()
		require.Contains(t, h.stderr.String(), want)
		require.Equal(t, h.stderr.String(), replays(t, dir))
	}
}
