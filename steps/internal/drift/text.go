package drift

import (
	"encoding/json"
	"fmt"
)

// String says what differs, and who made it so: spec.replicas is 0 instead of 1 (by
// kubectl).
func (f Field) String() string {
	by := ""
	if o := f.Owner.String(); o != "" {
		by = " (by " + o + ")"
	}
	switch {
	case f.Have == nil && f.Secret:
		return f.Path + " is gone" + by
	case f.Have == nil:
		return fmt.Sprintf("%s is gone, which was %s%s", f.Path, short(f.Want), by)
	case f.Secret:
		return f.Path + " has another value" + by
	}
	return fmt.Sprintf("%s is %s instead of %s%s", f.Path, short(f.Have), short(f.Want), by)
}

// Hidden is the field with its values hidden if hide changes the one that is wanted: what
// it has in that one's place may be as secret, and nobody knows it.
func (f Field) Hidden(hide func(string) string) Field {
	b, err := json.Marshal(f.Want)
	if text := string(b); err != nil || hide != nil && hide(text) != text {
		f.Secret = true
	}
	return f
}

// String names the manager and what it wrote by, but for the object itself.
func (o Owner) String() string {
	switch {
	case o.Subresource == "":
		return o.Manager
	case o.Manager == "":
		return "kubectl scale, or another patch of scale"
	}
	return o.Manager + " through " + o.Subresource
}

// short is a value on one line, cut where it is long.
func short(v any) string {
	const most = 60
	b, err := json.Marshal(v)
	if err != nil {
		return "something else"
	}
	if s := []rune(string(b)); len(s) > most {
		return string(s[:most]) + "…"
	}
	return string(b)
}
