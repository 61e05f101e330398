package fields

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// schemaAt is what an OpenAPI schema says of the value at a path; nil when nothing.
func schemaAt(schema map[string]any, path fieldpath.Path) map[string]any {
	for _, element := range path {
		if element.FieldName == nil {
			schema, _ = schema["items"].(map[string]any)
		} else {
			schema = fieldSchema(schema, *element.FieldName)
		}
	}
	return schema
}

// fieldSchema is what a schema says of a field.
func fieldSchema(schema map[string]any, name string) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	if field, ok := properties[name].(map[string]any); ok {
		return field
	}
	field, _ := schema["additionalProperties"].(map[string]any)
	return field
}

// defaulted is a value with the defaults of its schema, put in as the API server does
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting).
func defaulted(v any, schema map[string]any) any {
	if schema == nil {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			property, _ := p.(map[string]any)
			by, ok := property["default"]
			if !ok {
				continue
			}
			if has, present := out[name]; !present || has == nil && property["nullable"] != true {
				out[name] = runtime.DeepCopyJSONValue(by)
			}
		}
		for name, inner := range out {
			out[name] = defaulted(inner, fieldSchema(schema, name))
		}
		return out
	case []any:
		items, _ := schema["items"].(map[string]any)
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = defaulted(item, items)
		}
		return out
	}
	return v
}
