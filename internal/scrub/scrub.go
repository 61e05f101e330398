// Package scrub takes out of a text what looks like a secret: passwords, tokens, keys. It is
// for texts of other programs, such as errors and the ends of logs, that are repeated to
// people.
//
// It knows no secret of a plan or a cluster; package redact takes out those that are known.
package scrub

import (
	"regexp"
	"strings"
)

// hidden stands where something was that looks like a secret.
const hidden = "(hidden)"

// secrets are what looks like one: what follows a name such as password, logins of URLs and
// HTTP, tokens of known form, keys in PEM.
var secrets = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|$)`), hidden},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`), "$1 " + hidden},
	{regexp.MustCompile(`(?i)((?:password|passwd|pwd|token|secret|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)["']?\s*[:=]\s*)(?:"[^"]*"?|'[^']*'?|[^\s"',;)]+)`), "${1}" + hidden},
	// ACME says "authorization: 404 Not Found": what is short is no login.
	{regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*)(?:"[^"]*"?|'[^']*'?|[^\s"',;)]{7,})`), "${1}" + hidden},
	{regexp.MustCompile(`(://)[^/\s@]+@`), "${1}" + hidden + "@"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*`), hidden},
	{regexp.MustCompile(`\b(?:gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|sk-|hvs\.)[A-Za-z0-9_-]{10,}`), hidden},
}

// long are words that no name of an object is; digests of images are no secrets.
var long = regexp.MustCompile(`(?:sha256:)?[A-Za-z0-9+/_=]{40,}`)

// Text takes out of a text what looks like a secret, and puts "(hidden)" there.
func Text(text string) string {
	for _, s := range secrets {
		text = s.pattern.ReplaceAllString(text, s.with)
	}
	return long.ReplaceAllStringFunc(text, func(word string) string {
		if strings.HasPrefix(word, "sha256:") {
			return word
		}
		return hidden
	})
}
