// Package names knows what can be a name in a plan, and of an object of Kubernetes. It
// does not know which names there are.
package names

import "regexp"

var (
	label      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	subdomain  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	dataKey    = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	group      = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._:/]*[A-Za-z0-9])?$`)
	tag        = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`)
)

// IsLabel reports whether a name is a DNS label.
func IsLabel(name string) bool { return len(name) <= 63 && label.MatchString(name) }

// IsSubdomain reports whether a name is a DNS subdomain of at most so many characters.
func IsSubdomain(name string, most int) bool {
	return len(name) <= most && subdomain.MatchString(name)
}

// MaxSubdomain is how long the names of most objects may be.
const MaxSubdomain = 253

// IsDataKey reports whether a name can be a key of a Secret or ConfigMap.
func IsDataKey(name string) bool { return dataKey.MatchString(name) }

// IsIdentifier reports whether a name can be that of a variable.
func IsIdentifier(name string) bool { return identifier.MatchString(name) }

// IsTag reports whether a name of at most so many characters can be a tag, or the key of a step.
func IsTag(name string, most int) bool { return len(name) <= most && tag.MatchString(name) }

// IsGroup reports whether a name of at most so many characters can be that of a
// concurrency group.
func IsGroup(name string, most int) bool { return len(name) <= most && group.MatchString(name) }
