package kubeerr

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const redacted = "[redacted]"

// Redact takes a Secret's values out of an error about it: the API server
// repeats what it finds invalid. Errors about other kinds are left as they are.
func Redact(err error, u *unstructured.Unstructured) error {
	if err == nil || u.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return err
	}
	values := secretValues(u)
	clean := func(s string) string {
		for _, v := range values {
			s = strings.ReplaceAll(s, v, redacted)
		}
		return s
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		if clean(err.Error()) == err.Error() {
			return err
		}
		return errors.New(clean(err.Error()))
	}
	s := status.Status()
	if apierrors.IsInvalid(err) {
		s.Message = invalidFields(u.GetName(), s.Details)
	}
	s.Message = clean(s.Message)
	if s.Details != nil {
		d := *s.Details
		d.Causes = slices.Clone(d.Causes)
		for i := range d.Causes {
			if apierrors.IsInvalid(err) {
				d.Causes[i].Message = string(d.Causes[i].Type)
			}
			d.Causes[i].Message, d.Causes[i].Field = clean(d.Causes[i].Message), clean(d.Causes[i].Field)
		}
		s.Details = &d
	}
	return &apierrors.StatusError{ErrStatus: s}
}

// invalidFields says which fields are invalid, and why, but not what is in them.
func invalidFields(name string, d *metav1.StatusDetails) string {
	text := fmt.Sprintf("Secret %q is invalid", name)
	if d == nil {
		return text
	}
	var parts []string
	for _, c := range d.Causes {
		parts = append(parts, c.Field+": "+string(c.Type))
	}
	if len(parts) == 0 {
		return text
	}
	return text + ": " + strings.Join(parts, ", ")
}

// quoted is s as %q writes it, without the quotes.
func quoted(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// secretValues are the values of a Secret in every form that an error could
// repeat them in, longest first. Values of up to three characters are left
// out: replacing them would garble the message, and hide nothing.
func secretValues(u *unstructured.Unstructured) []string {
	var out []string
	add := func(s string) {
		for _, form := range []string{s, strings.TrimSpace(s), quoted(s)} {
			if len(form) > 3 && !slices.Contains(out, form) {
				out = append(out, form)
			}
		}
	}
	for _, field := range []string{"data", "stringData"} {
		m, _, _ := unstructured.NestedMap(u.Object, field)
		for _, v := range m {
			s := fmt.Sprint(v)
			add(s)
			add(base64.StdEncoding.EncodeToString([]byte(s)))
			if plain, err := base64.StdEncoding.DecodeString(s); err == nil {
				add(string(plain))
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// Reword returns an error that says text, and has causes in its chain.
func Reword(text string, causes ...error) error { return &reworded{text, causes} }

type reworded struct {
	text   string
	causes []error
}

func (e *reworded) Error() string   { return e.text }
func (e *reworded) Unwrap() []error { return e.causes }
