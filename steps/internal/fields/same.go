package fields

import (
	"encoding/base64"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// same compares two values, each as a whole.
func (c *comparison) same(path fieldpath.Path, want, has any) bool {
	switch want := want.(type) {
	case map[string]any:
		has, ok := has.(map[string]any)
		return ok && c.sameMap(path, want, has)
	case []any:
		has, ok := has.([]any)
		if !ok || len(want) != len(has) {
			return false
		}
		for i := range want {
			if !c.same(append(path, fieldpath.IndexElement(i)), want[i], has[i]) {
				return false
			}
		}
		return true
	case string:
		text, ok := has.(string)
		if ok && want == text {
			return true
		}
		return c.sameQuantity(path, want, has) || ok && c.secret() && len(path) == 2 && name(path, 2) == "data" && sameBase64(want, text)
	case nil, bool:
		return want == has
	}
	a, ok := number(want)
	b, isNumber := number(has)
	return ok && isNumber && a == b && exact(want) == exact(has) || c.sameQuantity(path, want, has)
}

func (c *comparison) sameMap(path fieldpath.Path, want, has map[string]any) bool {
	for key, v := range want {
		inner, present := has[key]
		if !present && c.builtIn && zero(v) {
			continue
		}
		if !present || !c.same(append(path, fieldpath.FieldNameElement(key)), v, inner) {
			return false
		}
	}
	for key, v := range has {
		if _, named := want[key]; named || c.builtIn && addedByServer(path, key, v, want) {
			continue
		}
		return false
	}
	return true
}

// zero are the values that Kubernetes leaves out when it writes an object.
func zero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, x := range v {
			if !zero(x) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case bool:
		return !v
	}
	n, ok := number(v)
	return ok && n == 0
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// exact is an integer that a float64 might not hold.
func exact(v any) int64 {
	if n, ok := v.(int64); ok && (n > 1<<53 || n < -1<<53) {
		return n
	}
	return 0
}

func sameBase64(a, b string) bool {
	x, err := base64.StdEncoding.DecodeString(a)
	y, err2 := base64.StdEncoding.DecodeString(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

// decoded puts a Secret's stringData where the API server does.
func decoded(secret map[string]any) map[string]any {
	plain, _ := secret["stringData"].(map[string]any)
	if plain == nil {
		return secret
	}
	out := maps.Clone(secret)
	delete(out, "stringData")
	data, _ := secret["data"].(map[string]any)
	merged := maps.Clone(data)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, v := range plain {
		text, _ := v.(string)
		merged[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	out["data"] = merged
	return out
}

// quantityParents are the fields of Kubernetes' own kinds whose values are all quantities,
// and quantityFields those that are one.
var (
	quantityParents = map[string]bool{
		"limits": true, "requests": true, "capacity": true, "allocatable": true, "hard": true, "overhead": true, "podFixed": true,
		"default": true, "defaultRequest": true, "max": true, "min": true, "maxLimitRequestRatio": true,
	}
	quantityFields = map[string]bool{"sizeLimit": true, "divisor": true, "averageValue": true, "value": true, "maximumVolumeSize": true}
)

// sameQuantity compares values as the API server keeps them: "1000m" becomes "1".
func (c *comparison) sameQuantity(path fieldpath.Path, want, has any) bool {
	if !c.builtIn || len(path) < 2 {
		return false
	}
	parent, field := name(path, 2), name(path, 1)
	if !quantityParents[parent] && (!quantityFields[field] || field == "value" && (c.kind != "HorizontalPodAutoscaler" || parent != "target")) {
		return false
	}
	a, err := resource.ParseQuantity(text(want))
	b, err2 := resource.ParseQuantity(text(has))
	return err == nil && err2 == nil && a.Cmp(b) == 0
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// name is the last but nth field of a path, counted from 1; "" where that is no field.
func name(path fieldpath.Path, n int) string {
	if n > len(path) || path[len(path)-n].FieldName == nil {
		return ""
	}
	return *path[len(path)-n].FieldName
}

// addedByServer reports whether a field that a manifest leaves out, of something that
// is replaced as a whole, has the value that the API server itself gives it. Fields
// of other parts need no such list: what is left out there is owned by nobody.
// (k8s.io/kubernetes pkg/apis/*/v1/defaults.go)
func addedByServer(path fieldpath.Path, key string, v any, want map[string]any) bool {
	parent := name(path, 1)
	list := name(path, 2) // of an item
	switch key {
	case "apiVersion":
		return parent == "fieldRef" && v == "v1" || list == "volumeClaimTemplates" && v == "v1"
	case "kind":
		return list == "volumeClaimTemplates" && v == "PersistentVolumeClaim"
	case "status":
		return list == "volumeClaimTemplates" || list == "onPodConditions" && v == "True"
	case "volumeMode":
		return name(path, 3) == "volumeClaimTemplates" && v == "Filesystem"
	case "divisor":
		return parent == "resourceFieldRef" && (v == "0" || v == int64(0))
	case "protocol":
		return list == "ports" && v == "TCP"
	case "scope":
		return (list == "rules" || list == "resourceRules") && v == "*"
	case "matchPolicy":
		return (parent == "matchConstraints" || parent == "matchResources") && v == "Equivalent"
	case "expirationSeconds":
		return parent == "serviceAccountToken" && v == int64(3600)
	case "apiGroup":
		return v == "rbac.authorization.k8s.io" && (parent == "roleRef" || list == "subjects" && want["kind"] != "ServiceAccount")
	}
	return zero(v)
}
