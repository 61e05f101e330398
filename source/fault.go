package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/kplan-dev/kplan/runner"
)

// UnreachableError says that a registry or repository could not be reached, or
// that it asked for time.
type UnreachableError struct{ error }

// Unwrap returns what happened.
func (e *UnreachableError) Unwrap() error { return e.error }

// explain gives an error a hint, takes the passwords of addresses out of it, and
// marks one after which another attempt may do.
func explain(ctx context.Context, err error, hint string, addresses ...string) error {
	if ctx.Err() == nil && runner.HintOf(err) == "" {
		err = runner.WithHint(err, cmp.Or(tlsHint(err), hint))
	}
	away := ctx.Err() == nil && isUnreachable(err)
	if err = withoutPasswords(err, addresses...); away {
		err = &UnreachableError{err}
	}
	return err
}

// tlsHint says what certificates are missing; "" when that is not the trouble.
func tlsHint(err error) string {
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "name the file of its CA in the plan: repositories: {NAME: {url: …, ca_file: FILE}}, or by helm repo add --ca-file"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // of net/http, without a type
		return "the server speaks no TLS: if that is right write plain_http: true beside a registry, and http:// in the address of a repository"
	case isAlert(err):
		return "if it wants a client certificate, name it in the plan: repositories: {NAME: {url: …, cert_file: FILE, key_file: FILE}}"
	}
	return ""
}

// isAlert reports whether the server refused by TLS, such as a client without certificate.
// crypto/tls says so in the operation's name.
func isAlert(err error) bool {
	e := (*net.OpError)(nil)
	return errors.As(err, &e) && e.Op == "remote error"
}

// isUnreachable reports whether the same request may do later.
func isUnreachable(err error) bool {
	if e := (*answerError)(nil); errors.As(err, &e) {
		return passes(e.answer.StatusCode)
	}
	if e := (*errcode.ErrorResponse)(nil); errors.As(err, &e) {
		return passes(e.StatusCode)
	}
	if runner.IsPermanent(err) || errors.As(err, new(*tls.CertificateVerificationError)) || isAlert(err) {
		return false
	}
	return errors.As(err, new(*url.Error)) || errors.As(err, new(*silentError)) || errors.As(err, new(*net.OpError)) || errors.Is(err, io.ErrUnexpectedEOF)
}

// passes reports whether an HTTP status is of a server that has trouble of its own.
func passes(code int) bool {
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout
}

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
