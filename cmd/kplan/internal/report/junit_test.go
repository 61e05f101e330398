package report

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/npmtest"
)

// validate runs xmllint with the schema of JUnit reports over files.
func validate(t *testing.T, files ...string) (string, error) {
	t.Helper()
	dir := npmtest.Install(t, "testdata/validator")
	cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(dir, "validate.js")}, files...)...)
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// TestJUnitIsValid checks the reports against the schema that Jenkins has for them.
func TestJUnitIsValid(t *testing.T) {
	files, err := filepath.Glob("testdata/junit/*.xml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	dir := t.TempDir()
	for name, l := range oddRuns() {
		file := filepath.Join(dir, name+".xml")
		require.NoError(t, os.WriteFile(file, write(t, JUnit, l, Meta{Version: hostile, PlanFile: hostile}), 0o600))
		files = append(files, file)
	}
	said, err := validate(t, files...)
	require.NoError(t, err, said)

	// The check is one: this one has skipped behind failure.
	bad := filepath.Join(dir, "bad.xml")
	require.NoError(t, os.WriteFile(bad, []byte(xml.Header+`<testsuites><testsuite name="a" package="p" id="0" timestamp="2026-01-01T00:00:00" hostname="h" tests="1" failures="2" errors="0" time="0">
<properties></properties><testcase name="a" classname="c" time="0"><failure type="a"/><skipped/></testcase><system-out/><system-err/></testsuite></testsuites>`), 0o600))
	said, err = validate(t, bad)
	require.Error(t, err)
	require.Contains(t, said, "skipped")
}

// TestJUnitCounts reads reports as a CI system does.
func TestJUnitCounts(t *testing.T) {
	for name, l := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			var doc struct {
				Suites []struct {
					Tests    int `xml:"tests,attr"`
					Failures int `xml:"failures,attr"`
					Skipped  int `xml:"skipped,attr"`
					Cases    []struct {
						Name    string    `xml:"name,attr"`
						Failure *struct{} `xml:"failure"`
						Skipped *struct{} `xml:"skipped"`
					} `xml:"testcase"`
				} `xml:"testsuite"`
			}
			require.NoError(t, xml.Unmarshal(write(t, JUnit, l, meta), &doc))
			require.Len(t, doc.Suites, 1)
			suite := doc.Suites[0]
			failed, skipped := 0, 0
			for i, c := range suite.Cases {
				require.Equal(t, l.Steps()[i].Name, c.Name)
				if c.Failure != nil {
					failed++
				}
				if c.Skipped != nil {
					skipped++
				}
			}
			require.Equal(t, len(suite.Cases), suite.Tests)
			require.Equal(t, failed, suite.Failures)
			require.Equal(t, skipped, suite.Skipped)
			require.Len(t, l.Execution().Failed(), failed)
		})
	}
}
