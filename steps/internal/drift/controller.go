package drift

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Controllers know which field managers are programs that keep objects as they want
// them, whose fields are not to be fought for. The zero value judges by names.
type Controllers struct{ writers map[string]bool }

// Saw takes note of the managers that write an object's status, as controllers do.
func (c *Controllers) Saw(live *unstructured.Unstructured) {
	for _, e := range live.GetManagedFields() {
		if e.Subresource != "status" || hand(e.Manager) {
			continue
		}
		if c.writers == nil {
			c.writers = map[string]bool{}
		}
		c.writers[e.Manager] = true
	}
}

// Has reports whether an owner is a controller.
func (c *Controllers) Has(o Owner) bool {
	name := strings.ToLower(o.Manager)
	switch {
	case hand(o.Manager):
		return false
	case o.Subresource == "status", c.writers[o.Manager]:
		return true
	}
	return slices.ContainsFunc(programs, func(part string) bool { return strings.Contains(name, part) })
}

// hand reports whether a manager is kubectl, which names itself after its command.
// Controllers do not use it, and it may write a status all the same.
func hand(manager string) bool { return strings.HasPrefix(manager, "kubectl") }

// programs are parts of the names that controllers go by.
var programs = []string{
	"controller", "operator", "manager", "injector", "scaler", "webhook", "certgen", "kube-", "kubelet", "scheduler", "provisioner", "agent", "keda", "istiod", "pilot",
}

// Credential reports whether a field is of those that programs fill in which make
// certificates: a CA bundle, or the data of a Secret.
func (f Field) Credential() bool { return f.Secret || f.at[len(f.at)-1] == "caBundle" }

// injected reports whether a field is a CA bundle that the manifest leaves to others:
// empty, or not a certificate. Putting it back would take a webhook out of service.
func injected(f Field) bool {
	last, _ := f.at[len(f.at)-1].(string)
	if last != "caBundle" {
		return false
	}
	text, _ := f.Want.(string)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return true
	}
	block, _ := pem.Decode(bytes.TrimSpace(raw))
	return block == nil || block.Type != "CERTIFICATE"
}

// Left reports whether a field is left as it is. What an apply step has taken over is:
// it has the last word.
func (c *Controllers) Left(f Field) bool {
	return injected(f) || slices.ContainsFunc(f.owners, func(o Owner) bool { return o.Manager == "kplan" || c.Has(o) })
}

// Without is an object without the fields that controllers own, and without lists
// of which they own items; owned is the object with its managedFields.
func (c *Controllers) Without(u, owned *unstructured.Unstructured) map[string]any {
	known := ownersOf(owned)
	out, _ := c.strip(known, nil, u.Object).(map[string]any)
	return out
}

func (c *Controllers) strip(known owners, path fieldpath.Path, v any) any {
	if len(path) > 0 && slices.ContainsFunc(known.of(path), c.Has) {
		if _, inner := v.(map[string]any); !inner {
			return nil
		}
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, inner := range v {
			if kept := c.strip(known, append(slices.Clone(path), fieldpath.FieldNameElement(name)), inner); kept != nil {
				out[name] = kept
			}
		}
		return out
	case []any:
		keys, set := known.keys(path)
		if len(keys) == 0 && !set {
			return v
		}
		var out []any
		for _, item := range v {
			m, ok := item.(map[string]any)
			if !ok {
				out = append(out, item)
				continue
			}
			out = append(out, c.strip(known, append(slices.Clone(path), keyOf(m, keys)), m))
		}
		return out
	}
	return v
}
