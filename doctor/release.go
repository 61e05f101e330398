package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan/finding"
)

// unfinished is how long an operation of Helm may take.
const unfinished = 10 * time.Minute

// release is a release of Helm.
type release struct{ namespace, name string }

func (r release) String() string { return object("Release", r.namespace, r.name) }

// revision is one of a release, as the labels of its record tell (helm.sh/helm/v3
// pkg/storage/driver/secrets.go). What is in the record is not read.
type revision struct {
	object, status string
	number         int
	changed        time.Time
}

var releasePending = Check{
	Rule: finding.Rule{
		ID: "release-pending", Severity: finding.Error,
		Summary:     "A Helm release is in the middle of an operation that nobody ends.",
		Explanation: "Helm was killed, or lost its connection. It refuses further operations: another operation (install/upgrade/rollback) is in progress.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		return c.eachRelease(ctx, func(r release, all []revision) (f finding.Finding, bad bool) {
			newest := all[0]
			if !strings.HasPrefix(newest.status, "pending-") && newest.status != "uninstalling" || c.Now.Sub(newest.changed) < unfinished {
				return f, false
			}
			f.Message = fmt.Sprintf("has been %s for more than 10 minutes, at revision %d", newest.status, newest.number)
			f.Hint = fmt.Sprintf("when nobody works at it any more: helm uninstall %s -n %s", r.name, r.namespace)
			if good := lastGood(all); good > 0 && newest.status != "uninstalling" {
				f.Hint = fmt.Sprintf("when nobody works at it any more: helm rollback %s %d -n %s", r.name, good, r.namespace)
			}
			f.Evidence = []finding.Evidence{newest.evidence()}
			return f, true
		})
	},
}

var releaseFailed = Check{
	Rule: finding.Rule{
		ID: "release-failed", Severity: finding.Error,
		Summary:     "The newest revision of a Helm release has failed.",
		Explanation: "Some of its objects were made and some were not. The release's description has Helm's error.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		return c.eachRelease(ctx, func(r release, all []revision) (f finding.Finding, bad bool) {
			newest := all[0]
			if newest.status != "failed" {
				return f, false
			}
			f.Message = fmt.Sprintf("revision %d has failed, and none was deployed before", newest.number)
			f.Hint = fmt.Sprintf("see helm status %s -n %s, and install it again", r.name, r.namespace)
			f.Evidence = []finding.Evidence{newest.evidence()}
			if good := lastGood(all); good > 0 {
				f.Message = fmt.Sprintf("revision %d has failed; revision %d was deployed before", newest.number, good)
				f.Hint = fmt.Sprintf("see helm status %s -n %s, and upgrade it again, or: helm rollback %s %d -n %s", r.name, r.namespace, r.name, good, r.namespace)
			}
			return f, true
		})
	},
}

func (r revision) evidence() finding.Evidence {
	return finding.Evidence{Object: r.object, Field: "metadata.labels[status]", Value: r.status}
}

// lastGood is the newest revision that was deployed; 0 without.
func lastGood(all []revision) int {
	for _, r := range all[1:] {
		if r.status == "deployed" || r.status == "superseded" {
			return r.number
		}
	}
	return 0
}

// eachRelease collects what judge finds of each release, whose newest record is first.
func (c *Cluster) eachRelease(ctx context.Context, judge func(release, []revision) (finding.Finding, bool)) []finding.Finding {
	all := c.releases(ctx)
	var found []finding.Finding
	for _, r := range slices.SortedFunc(maps.Keys(all), func(a, b release) int { return cmp.Compare(a.String(), b.String()) }) {
		if f, bad := judge(r, all[r]); bad {
			f.Object = r.String()
			found = append(found, f)
		}
	}
	return found
}

// releases are the records of all releases in the namespaces that are examined, the newest
// first. It is nil when those in Secrets may not be read.
func (c *Cluster) releases(ctx context.Context) map[release][]revision {
	r := c.records(ctx, false)
	if r.failed["Secret"] {
		return nil
	}
	return r.of
}

// records are what Helm keeps of releases, as far as metadata tells.
type records struct {
	// of has the revisions of each release, the newest first.
	of map[release][]revision
	// names are those of the releases that anything is kept of.
	names map[string]bool
	// failed are the kinds that could not be read completely.
	failed map[string]bool
}

// told reports whether a release without a record is none: both kinds were read, and
// Helm keeps its records in one of them.
func (r records) told() bool { return len(r.failed) == 0 && len(r.names) > 0 }

// records reads Helm's records: of the namespaces that are examined, or everywhere.
func (c *Cluster) records(ctx context.Context, everywhere bool) records {
	everywhere = everywhere || len(c.namespaces) == 0
	return once(c, fmt.Sprintf("records of Helm, everywhere: %t", everywhere), func() records {
		r := records{map[release][]revision{}, map[string]bool{}, map[string]bool{}}
		for kind, gvr := range map[string]schema.GroupVersionResource{"Secret": secretResource, "ConfigMap": configMapResource} {
			err := c.metaPages(ctx, gvr, !everywhere, "owner=helm", func(page []metav1.PartialObjectMetadata) {
				for _, o := range page {
					r.add(kind, o)
				}
			})
			c.note(gvr, err)
			if err != nil {
				r.failed[kind] = true
			}
		}
		for _, revisions := range r.of {
			slices.SortFunc(revisions, func(a, b revision) int { return cmp.Compare(b.number, a.number) })
		}
		return r
	})
}

func (r records) add(kind string, o metav1.PartialObjectMetadata) {
	name := o.Labels["name"]
	if name != "" {
		r.names[name] = true
	}
	number, err := strconv.Atoi(o.Labels["version"])
	if err != nil || !strings.HasPrefix(o.Name, "sh.helm.release.v1.") {
		return
	}
	at := release{o.Namespace, name}
	r.of[at] = append(r.of[at], revision{object(kind, o.Namespace, o.Name), o.Labels["status"], number, changed(o)})
}

// unrecorded is the evidence that a release has no record.
func (r release) unrecorded() finding.Evidence {
	return finding.Evidence{Object: r.String(), Field: "Secrets and ConfigMaps of owner=helm,name=" + r.name + " in all namespaces", Value: "none"}
}

// changed is when a record was written last.
func changed(o metav1.PartialObjectMetadata) time.Time {
	at := o.CreationTimestamp.Time
	if seconds, err := strconv.ParseInt(o.Labels["modifiedAt"], 10, 64); err == nil {
		at = latest(at, time.Unix(seconds, 0))
	}
	return at
}
