// Package secret guesses which values are secrets, by their names and by how they
// look. It knows no plan and no file, hides nothing, and may be wrong both ways:
// package redact hides what is known to be secret.
package secret

import (
	"regexp"
	"slices"
	"strings"
)

// endings are the ends of names of values that nobody else should know, in small
// letters and without signs.
var endings = []string{
	"password", "passwd", "passphrase", "pwd", "pass", "token", "apikey", "secretkey", "accesskey", "secretaccesskey", "privatekey", "clientsecret",
	"sharedsecret", "cookiesecret", "sessionsecret", "jwtsecret", "appsecret", "webhooksecret", "hmacsecret", "encryptionkey", "signingkey",
	"credential", "credentials",
}

// public are names that end like a secret's and are of none.
var public = []string{"automountserviceaccounttoken", "publickey", "bypass", "compass", "proxypass"}

var flatten = strings.NewReplacer("_", "", "-", "", ".", "")

// Named reports whether a value of that name is a secret, unless it is a reference.
func Named(name string) bool {
	flat := strings.ToLower(flatten.Replace(name))
	ends := func(end string) bool { return strings.HasSuffix(flat, end) }
	return flat == "pw" || strings.HasSuffix(strings.ToLower(name), "_pw") || slices.ContainsFunc(endings, ends) && !slices.ContainsFunc(public, ends)
}

// reference is a text that stands for another one: of a shell, of a template, or a
// file's path.
var reference = regexp.MustCompile(`^(\$[({A-Z]|/|\./|file:|vault:|secretref:|(?i:x{3,}|\*+|\.\.\.|…)$|<.*>$)|\{\{`)

// IsReference reports whether a text stands for a secret that is kept elsewhere, or
// for one to be filled in.
func IsReference(text string) bool { return reference.MatchString(text) }

var (
	key   = regexp.MustCompile(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----`)
	token = regexp.MustCompile(`(^|[^\w-])(gh[pousr]_\w{10,}|github_pat_\w{10,}|glpat-[\w-]{10,}|xox[abprs]-[\w-]{10,}|hvs\.[\w-]{10,}|A[KS]IA[A-Z0-9]{16}\b|sk-[\w-]{20,})`)
	jwt   = regexp.MustCompile(`(^|[^\w-])eyJ[\w-]{10,}\.[\w-]+`)
	hook  = regexp.MustCompile(`hooks\.slack\.com/services/\w|discord(app)?\.com/api/webhooks/\w`)
	// What follows hold the secret in their last group.
	address = regexp.MustCompile(`://[^/\s:@]*:([^/\s@]+)@`)
	option  = regexp.MustCompile(`(^|\s)--?([\w-]+)[= ]["']?([^\s"']+)`)
	setting = regexp.MustCompile(`(?m)^[ \t]*["']?([\w.-]+)["']?[ \t]*[:=][ \t]*["']?([^\s"'#]+)`)
	nothing = regexp.MustCompile(`^(true|false|null|~|[|>][-+]?|\[.*|\{.*|&.*|\*.*|-.*)$`)
)

// In says what kind of secret a text is or holds, whatever its name; "" when it is
// none that shows.
func In(text string) string {
	switch {
	case len(text) < 8:
		return ""
	case key.MatchString(text):
		return "a private key"
	case token.MatchString(text), jwt.MatchString(text):
		return "a token"
	case hook.MatchString(text):
		return "an address that lets whoever knows it write messages"
	}
	for _, m := range address.FindAllStringSubmatch(text, -1) {
		if !IsReference(m[1]) {
			return "an address with a password"
		}
	}
	for _, m := range option.FindAllStringSubmatch(text, -1) {
		if assigns(m[2], m[3]) {
			return "an option with a secret"
		}
	}
	if !strings.Contains(text, "\n") {
		return ""
	}
	for _, m := range setting.FindAllStringSubmatch(text, -1) {
		if assigns(m[1], m[2]) {
			return "a file with a secret"
		}
	}
	return ""
}

// assigns reports whether a value is given to the name of a secret.
func assigns(name, value string) bool {
	return Named(name) && !IsReference(value) && !nothing.MatchString(value)
}

// What is likely a secret besides. It is rather one too many.
var (
	likely = regexp.MustCompile(`(?i)passw|passphrase|secret|token|api_?-?key|private_?-?key|access_?-?key|credential|kube_?config|dockerconfig|^pass$|^pwd$|^auth$|_(pass|pwd|key)$|connection_?-?string|dsn$`)
	// harmless are names that name a secret, or say how it is kept.
	harmless = regexp.MustCompile(`(?i)(name|namespace|ref|class|type|path|file|mount|provider|engine|store|url|label|annotation|enabled|create|ttl|duration|interval|pullsecret)s?$|^existing`)
	// number are names whose value is a secret even if it is a number.
	number = regexp.MustCompile(`(?i)(passw(or)?d|passphrase|secret|token)$`)
	file   = regexp.MustCompile(`(?im)^\s*["']?[\w.-]*(passw(or)?d|secret|token|api_?key)["']?\s*[:=]\s*["']?[^\s"'{$]`)
)

// IsLikely reports whether the text at a path of names may be a secret.
func IsLikely(path []string, text string) bool {
	if text == "" || strings.HasPrefix(text, "$(") { // a variable of a container
		return false
	}
	if In(text) != "" || file.MatchString(text) {
		return true
	}
	for _, name := range slices.Backward(path) {
		switch {
		case harmless.MatchString(name):
			return false
		case likely.MatchString(name), Named(name):
			return true
		}
	}
	return false
}

// IsLikelyNumber reports whether a number of that name may be a secret.
func IsLikelyNumber(name string) bool { return number.MatchString(name) }
