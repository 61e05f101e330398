package helm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/drift"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// Drift is how the objects of a deployed revision differ from what was rendered.
type Drift struct {
	Revision int
	// Gone are the objects that the cluster does not have any more, as
	// Kind/namespace/name, and Changed those that have other fields, in the manifest's
	// order.
	Gone    []string
	Changed []Changed
}

// Changed is an object that others changed.
type Changed struct {
	// Object is Kind/namespace/name.
	Object string
	Live   *unstructured.Unstructured
	// Fields are those that were changed, and Left those that controllers keep as they
	// want them. One of them may be empty.
	Fields, Left []drift.Field

	info     *resource.Info
	manifest *unstructured.Unstructured
	// judge parts the fields of the object that differ in those that others changed,
	// and those that are left to controllers.
	judge func(live *unstructured.Unstructured) (changed, left []drift.Field)
}

// Drift reads how the release's objects differ from those of its deployed revision;
// nil when none is deployed.
func (a *Action) Drift(ctx context.Context, s *cluster.Session) (*Drift, error) {
	conn, err := a.connect(ctx, s, silent{})
	if err != nil {
		return nil, err
	}
	defer conn.client.order.Close()
	all, err := a.history(ctx, conn)
	if err != nil {
		return nil, err
	}
	deployed := all.deployed()
	if deployed == nil {
		return nil, nil
	}
	resources, err := conn.client.Build(manifestOf(deployed), false)
	if err != nil {
		return nil, fmt.Errorf("reading the release's objects: %w", err)
	}
	read := reader{s}
	d, err := read.drift(ctx, deployed, resources)
	if err == nil {
		read.confirm(ctx, d)
	}
	return d, err
}

// drift compares a revision's objects with those that the cluster has.
func (r reader) drift(ctx context.Context, rev *engine.Release, resources engine.ResourceList) (*Drift, error) {
	live, err := r.live(ctx, resources)
	if err != nil {
		return nil, err
	}
	d := &Drift{Revision: rev.Version}
	var controllers drift.Controllers
	for _, u := range live {
		if u != nil {
			controllers.Saw(u)
		}
	}
	for i, info := range resources {
		if live[i] == nil {
			// Jobs that remove themselves once they are done are never missed.
			if !removesItself(info) {
				d.Gone = append(d.Gone, objectOf(info))
			}
			continue
		}
		manifest, err := contentOf(info)
		if err != nil {
			return nil, err
		}
		mark(manifest, rev)
		ch := Changed{Object: objectOf(info), Live: live[i], info: info, manifest: manifest}
		ch.judge = func(live *unstructured.Unstructured) (changed, left []drift.Field) {
			for _, f := range drift.Of(manifest, live, manager) {
				if controllers.Left(f) || f.Credential() && byHook(rev, f.Owner) {
					left = append(left, f)
				} else {
					changed = append(changed, f)
				}
			}
			return changed, left
		}
		if ch.Fields, ch.Left = ch.judge(live[i]); len(ch.Fields)+len(ch.Left) > 0 {
			d.Changed = append(d.Changed, ch)
		}
	}
	return d, nil
}

// target is the object as it is put right.
func (c Changed) target() *unstructured.Unstructured { return drift.Right(c.Live, c.Fields) }

// mark puts on a manifest by what Helm knows its objects.
func mark(u *unstructured.Unstructured, r *engine.Release) {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[managedBy] = "Helm"
	annotations["meta.helm.sh/release-name"], annotations["meta.helm.sh/release-namespace"] = r.Name, r.Namespace
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
}

// byHook reports whether an owner last wrote while a program of the revision's hooks
// ran: it was the hook, whose clients go by any name.
func byHook(r *engine.Release, o drift.Owner) bool {
	for _, h := range r.Hooks {
		if h.Kind != job.Kind && h.Kind != pod.Kind {
			continue
		}
		began, ended := h.LastRun.StartedAt, h.LastRun.CompletedAt
		// managedFields has whole seconds.
		if !o.Time.IsZero() && !o.Time.Before(began.Truncate(time.Second)) && !o.Time.After(ended) {
			return true
		}
	}
	return false
}

// Fields counts the fields that others changed.
func (d *Drift) Fields() int {
	n := 0
	for _, c := range d.Changed {
		n += len(c.Fields)
	}
	return n
}

// String says what was changed of an object, and by whom.
func (c Changed) String() string {
	const most = 4
	var parts []string
	for _, f := range c.Fields[:min(len(c.Fields), most)] {
		parts = append(parts, f.String())
	}
	text := c.Object + ": " + strings.Join(parts, ", ")
	if more := len(c.Fields) - most; more > 0 {
		text += fmt.Sprintf(" and %s more", fields(more))
	}
	return text
}

// fields is a number of fields in words.
func fields(n int) string {
	if n == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", n)
}
