package vars

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// sealed are the values of a file as they stand in it, encrypted.
type sealed struct {
	values map[string]any
	// locked says that they stay so: nobody has the key, or the file has a fault.
	locked bool
}

// has reports whether a variable's value was encrypted, or part of it.
func (s sealed) has(name string) bool {
	return value.Any(s.values[name], func(v any) bool {
		text, ok := v.(string)
		return ok && strings.HasPrefix(text, "ENC[")
	})
}

// decrypt returns the text of a var file. What was encrypted in it is a secret. One that
// cannot be decrypted is reported, and stays as it is.
func (r *reader) decrypt(file string, src []byte, o document.Options) ([]byte, sealed) {
	if r.Decrypt == nil {
		return src, sealed{}
	}
	text, secrets, err := r.Decrypt(src)
	if err != nil && r.Unknown && isKeyless(err) {
		return src, sealedIn(src, true)
	}
	if err != nil {
		ReportDecrypt(r.Faults, document.NewSource(file, src, o, r.Faults), err)
		return src, sealedIn(src, true) // which variables have no value is no news
	}
	if len(secrets) == 0 {
		return text, sealed{}
	}
	for _, secret := range secrets {
		r.Secrets.Add(secret)
	}
	return text, sealedIn(src, false)
}

func sealedIn(src []byte, locked bool) sealed {
	s := sealed{locked: locked}
	if yaml.Unmarshal(src, &s.values) != nil { // it was read before, and is again
		return sealed{}
	}
	return s
}

// isKeyless reports whether a file could not be decrypted only because no key is at
// hand.
func isKeyless(err error) bool {
	e, ok := err.(interface{ NoKey() bool })
	return ok && e.NoKey()
}

// ReportDecrypt reports that a file cannot be decrypted, where the error says so, if it does.
func ReportDecrypt(f *document.Faults, s *document.Source, err error) {
	pos, hint := document.Pos{File: s.File()}, ""
	if e, ok := err.(interface{ Position() (line, column int) }); ok {
		pos.Line, pos.Col = e.Position()
	}
	if e, ok := err.(interface{ Hint() string }); ok {
		hint = e.Hint()
	}
	f.Add(s, pos, document.Fault{Code: document.CodeFile, Hint: hint}, "the file cannot be read: %s", err)
}
