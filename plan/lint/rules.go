package lint

import (
	_ "embed" // what the rules are about
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/finding"
)

// rule is something that a plan should not do, and how to find it.
type rule struct {
	check func(*pass)
	finding.Rule
}

// Rules returns all rules, by ID.
func Rules() []finding.Rule {
	all := make([]finding.Rule, len(rules))
	for i, r := range rules {
		all[i] = r.Rule
	}
	return all
}

// Find returns the rule with an ID.
func Find(id string) (finding.Rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.ID == id })
	if i < 0 {
		return finding.Rule{}, false
	}
	return rules[i].Rule, true
}

// rulesPage says what the rules are about: each has a title with its ID, its
// severity and summary on a line, and its explanation. docs/reference/lint.md has it too.
//
//go:embed rules.md
var rulesPage string

// rules is filled by init: the rule of comments asks which rules there are.
var rules []rule

func init() {
	checks := map[string]func(*pass){
		"bad-ignore":                checkIgnores,
		"canary-before-namespace":   checkCanaries,
		"crd-beside-resource":       checkCRDs,
		"expression-in-file":        checkFiled,
		"guarded-in-own-chart":      checkOwnChart,
		"retry-uninstalls":          checkRetryUninstalls,
		"secret-before-certificate": checkSecrets,
		"secret-in-values":          checkPlainSecrets,
		"two-owners":                checkOwners,
		"unguarded":                 checkUnguarded,
		"unpinned-chart":            checkPins,
		"unpinned-manifest":         checkManifestPins,
		"unread-step":               checkUnread,
		"unused-var":                checkUnusedVars,
		"wait-never-true":           checkWaits,
		"yaml-1.1":                  checkYAML,
	}
	for text := range strings.SplitSeq(strings.TrimPrefix(rulesPage, "### "), "\n### ") {
		id, text, _ := strings.Cut(text, "\n*")
		severity, text, _ := strings.Cut(text, ":* ")
		summary, explanation, _ := strings.Cut(text, ".\n\n")
		rules = append(rules, rule{checks[id], finding.Rule{
			ID: id, Severity: finding.Severity(severity), Summary: summary, Explanation: strings.TrimSpace(explanation),
		}})
	}
}
