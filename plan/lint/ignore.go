package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
)

// ignoring is a comment that silences rules: # kplan:ignore ID[,ID…] reason.
var ignoring = regexp.MustCompile(`(^|\s)#\s*kplan:ignore(?:\s+([-\w.,]+))?`)

// ignored reports whether a comment on the line, or alone on the one above, silences
// the rule.
func ignored(t *document.Source, line int, rule string) bool {
	if silences(t.Line(line), rule) {
		return true
	}
	above := t.Line(line - 1)
	return strings.HasPrefix(strings.TrimSpace(above), "#") && silences(above, rule)
}

func silences(line, rule string) bool {
	m := ignoring.FindStringSubmatch(line)
	return m != nil && slices.Contains(strings.Split(m[2], ","), rule)
}

// checkIgnores looks for comments that silence nothing because they name no rule.
func checkIgnores(p *pass) {
	for _, t := range slices.Concat(p.Plan.Texts, p.Values) {
		if !strings.Contains(string(t.Bytes()), "kplan:ignore") {
			continue
		}
		n := 0
		for line := range strings.Lines(string(t.Bytes())) {
			n++
			m := ignoring.FindStringSubmatchIndex(line)
			if m == nil {
				continue
			}
			ids, at := "", m[1]
			if m[4] >= 0 {
				ids, at = line[m[4]:m[5]], m[4]
			}
			for id := range strings.SplitSeq(ids, ",") {
				if _, known := Find(id); !known {
					message := fmt.Sprintf("there is no rule %q to ignore", id)
					if id == "" {
						message = "the comment names no rule to ignore"
					}
					p.add(finding.Warning, nil, location{Place: t.PlaceAt(n, len([]rune(line[:at]))+1), text: t}, "kplan lint --list shows the rules",
						"%s", message)
				}
			}
		}
	}
}
