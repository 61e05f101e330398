package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/finding"
)

// crdStoredVersion finds versions in which objects may be stored, and that are on their
// way out.
var crdStoredVersion = Check{
	Rule: finding.Rule{
		ID: "crd-stored-version", Severity: finding.Warning,
		Summary: "A CRD's objects may be stored in a version that is not served.",
		Explanation: "status.storedVersions lists every version that was ever the storage version. " +
			"The next CRD that leaves such a version out is refused: an upgrade fails by it (status.storedVersions: must appear in spec.versions). " +
			"Objects are stored anew when they are written; then the version can be taken out of status.storedVersions.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var found []finding.Finding
		for _, d := range c.definitions(ctx) {
			if f, ok := d.stale(); ok {
				found = append(found, f)
			}
		}
		return found
	},
}

// stale finds stored versions that are not served, or not defined at all.
func (d definition) stale() (finding.Finding, bool) {
	var unserved, undefined []string
	for _, v := range d.Status.StoredVersions {
		i := slices.IndexFunc(d.Spec.Versions, func(w definitionVersion) bool { return w.Name == v })
		switch {
		case i < 0:
			undefined = append(undefined, v)
		case !d.Spec.Versions[i].Served && !d.Spec.Versions[i].Storage:
			unserved = append(unserved, v)
		}
	}
	stored := finding.Evidence{Object: d.String(), Field: "status.storedVersions", Value: strings.Join(d.Status.StoredVersions, ", ")}
	hint := fmt.Sprintf("write all objects anew (kubectl get %s -A -o json | kubectl replace -f -), then take it out of status.storedVersions", d.Name)
	switch {
	case undefined != nil:
		return finding.Finding{
			Object: d.String(), Severity: finding.Error, Hint: "put the version back into spec.versions, " + hint,
			Message: fmt.Sprintf("objects may be stored as %s, which it does not define: those cannot be read", sentence(undefined)),
			Evidence: []finding.Evidence{
				stored, {Object: d.String(), Field: "spec.versions", Value: d.versions()},
			},
		}, true
	case unserved != nil:
		return finding.Finding{
			Object: d.String(), Hint: hint,
			Message:  fmt.Sprintf("objects may be stored as %s, which is not served: an upgrade to a CRD without it is refused", sentence(unserved)),
			Evidence: []finding.Evidence{stored, {Object: d.String(), Field: "spec.versions", Value: d.versions()}},
		}, true
	}
	return finding.Finding{}, false
}

// versions names the versions for people.
func (d definition) versions() string {
	var all []string
	for _, v := range d.Spec.Versions {
		text := v.Name
		if !v.Served {
			text += " (not served)"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
