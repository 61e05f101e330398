package findings

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/plan/finding"
)

// The parts of a SARIF 2.1.0 log that are written here. The names are those of
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string      `json:"id"`
		ShortDescription sarifText   `json:"shortDescription"`
		Help             sarifText   `json:"help,omitzero"`
		Configuration    sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation,omitzero"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region,omitzero"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
)

// log is the report as SARIF. A finding whose rule is not among the report's
// gets one without words, as a log names each rule that it refers to.
func (r Report) log() sarifLog {
	driver := sarifDriver{Name: "kplan", Version: r.Version, Rules: []sarifRule{}}
	index := func(id string) int {
		return slices.IndexFunc(driver.Rules, func(known sarifRule) bool { return known.ID == id })
	}
	for _, rule := range r.Rules {
		driver.Rules = append(driver.Rules, newSarifRule(rule))
	}
	results := []sarifResult{}
	for _, f := range r.Findings {
		if index(f.Rule) < 0 {
			driver.Rules = append(driver.Rules, newSarifRule(finding.Rule{ID: f.Rule, Summary: f.Rule, Severity: f.Severity}))
		}
		lines := []string{f.Message}
		for _, e := range f.Evidence {
			lines = append(lines, "read: "+e.Object+" "+e.Field+": "+e.Value)
		}
		text := strings.Join(lines, "\n")
		if f.Hint != "" {
			text += "\nhint: " + f.Hint
		}
		results = append(results, sarifResult{
			RuleID: f.Rule, RuleIndex: index(f.Rule), Level: string(f.Severity),
			Message: sarifText{text}, Locations: r.locations(f),
		})
	}
	return sarifLog{
		Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{driver}, ColumnKind: "unicodeCodePoints", Results: results}},
	}
}

func newSarifRule(rule finding.Rule) sarifRule {
	return sarifRule{
		ID: rule.ID, ShortDescription: sarifText{rule.Summary}, Help: sarifText{rule.Explanation},
		Configuration: sarifConfig{string(rule.Severity)},
	}
}

// locations are where a finding is: its place in a file, and its path of fields
// or the argument of the command line.
func (r Report) locations(f finding.Finding) []sarifLocation {
	var l sarifLocation
	name := f.Path
	if f.InFile() {
		l.Physical = sarifPhysical{sarifArtifact{uri(actions.Place(r.Root, f.File))}, sarifRegion{f.Line, f.Col}}
	} else {
		name = cmp.Or(f.File, f.Object)
		if f.Cluster != "" {
			name = f.Cluster + "/" + name
		}
	}
	if name != "" {
		l.Logical = []sarifLogical{{name}}
	}
	return []sarifLocation{l}
}

// uri is a path with slashes as a URI: a relative one stays relative.
func uri(p string) string {
	u := url.URL{Path: path.Clean(p)}
	switch {
	case strings.HasPrefix(p, "/"):
		u.Scheme = "file"
	case len(p) > 1 && p[1] == ':': // C:/…
		u.Scheme, u.Path = "file", "/"+u.Path
	}
	return u.String()
}
