package fields

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// plainName is what needs no quotes in a path.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_$-]+$`)

// Text writes a path as people do: spec.template.spec.containers[name=x].image,
// metadata.labels["app.kubernetes.io/name"].
func Text(path fieldpath.Path) string {
	var b strings.Builder
	for _, element := range path {
		switch {
		case element.FieldName != nil && plainName.MatchString(*element.FieldName):
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(*element.FieldName)
		case element.FieldName != nil:
			fmt.Fprintf(&b, "[%q]", *element.FieldName)
		case element.Key != nil:
			var parts []string
			for _, field := range *element.Key {
				parts = append(parts, field.Name+"="+brief(field.Value))
			}
			b.WriteString("[" + strings.Join(parts, ",") + "]")
		case element.Value != nil:
			b.WriteString("[" + brief(*element.Value) + "]")
		case element.Index != nil:
			fmt.Fprintf(&b, "[%d]", *element.Index)
		}
	}
	return b.String()
}

// brief writes a scalar, in quotes only where it needs them.
func brief(v value.Value) string {
	if v.IsString() && !strings.ContainsAny(v.AsString(), "[],=\" \n") {
		return v.AsString()
	}
	raw, err := json.Marshal(v.Unstructured())
	if err != nil {
		return value.ToString(v)
	}
	return string(raw)
}
