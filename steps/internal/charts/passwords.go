package charts

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/kplan-dev/kplan/runner"
)

// userinfo is the password in an address, however that is quoted.
var userinfo = regexp.MustCompile(`(://[^/\s:@"]*):[^/\s"]*@`)

// Public is text without the passwords of addresses: those that it holds
// itself, and those of the addresses given, wherever they stand.
func Public(text string, addresses ...string) string {
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil || u.User == nil {
			continue
		}
		password, _ := u.User.Password()
		_, escaped, _ := strings.Cut(u.User.String(), ":")
		for _, p := range []string{password, escaped} {
			if len(p) > 3 { // shorter ones would garble the text, and are no secret
				text = strings.ReplaceAll(text, p, "xxxxx")
			}
		}
	}
	return userinfo.ReplaceAllString(text, "${1}:xxxxx@")
}

// withoutPasswords takes the passwords of addresses out of an error, whose
// chain is given up for it; permanence and hint stay.
func withoutPasswords(err error, addresses ...string) error {
	hint := runner.HintOf(err)
	text := Public(err.Error(), addresses...)
	if text == err.Error() && Public(hint, addresses...) == hint {
		return err
	}
	out := errors.New(text)
	if runner.IsPermanent(err) {
		out = runner.Permanent(out)
	}
	return runner.WithHint(out, Public(hint, addresses...))
}
