package starter

import (
	"regexp"
	"slices"
	"strings"
)

// What looks like a secret. It is rather one too many: a value that is none can be
// written into the plan again.
var (
	secretKey = regexp.MustCompile(`(?i)passw|passphrase|secret|token|api_?-?key|private_?-?key|access_?-?key|credential|kube_?config|dockerconfig|^pass$|^pwd$|^auth$|_(pass|pwd|key)$|connection_?-?string|dsn$`)
	// harmless are keys that name a secret, or say how it is kept.
	harmless = regexp.MustCompile(`(?i)(name|namespace|ref|class|type|path|file|mount|provider|engine|store|url|label|annotation|enabled|create|ttl|duration|interval|pullsecret)s?$|^existing`)
	// secretNumber are keys whose value is a secret even if it is a number.
	secretNumber = regexp.MustCompile(`(?i)(passw(or)?d|passphrase|secret|token)$`)
	// secretTexts are texts that are or hold a secret whatever their key.
	secretTexts = []*regexp.Regexp{
		regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`),
		regexp.MustCompile(`^(gh[pousr]_|github_pat_|glpat-|xox[abpr]-|hvs\.|A[KS]IA[A-Z0-9]{16}|sk-[\w-]{20})`), // tokens of well-known services
		regexp.MustCompile(`^eyJ[\w-]{10,}\.`),                                                                   // a JWT
		regexp.MustCompile(`://[^/\s:@]*:[^/\s@]+@`),                                                             // an address with a password
		regexp.MustCompile(`hooks\.slack\.com/services/|discord(app)?\.com/api/webhooks/`),
		regexp.MustCompile(`(?im)^\s*["']?[\w.-]*(passw(or)?d|secret|token|api_?key)["']?\s*[:=]\s*["']?[^\s"'{$]`), // a file with one
	}
)

// isSecret tells whether the text at a path of keys looks like a secret.
func isSecret(path []string, text string) bool {
	if text == "" || strings.HasPrefix(text, "$(") { // a variable of a container
		return false
	}
	for _, r := range secretTexts {
		if r.MatchString(text) {
			return true
		}
	}
	for _, key := range slices.Backward(path) {
		if harmless.MatchString(key) {
			return false
		}
		if secretKey.MatchString(key) {
			return true
		}
	}
	return false
}
