package helm

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// moved are the kinds that Kubernetes serves in another group than it did once
// (https://kubernetes.io/docs/reference/using-api/deprecation-guide/, v1.16 and v1.22).
var moved = map[schema.GroupKind]string{
	{Group: "extensions", Kind: "DaemonSet"}:     "apps",
	{Group: "extensions", Kind: "Deployment"}:    "apps",
	{Group: "extensions", Kind: "ReplicaSet"}:    "apps",
	{Group: "extensions", Kind: "Ingress"}:       "networking.k8s.io",
	{Group: "extensions", Kind: "NetworkPolicy"}: "networking.k8s.io",
}

// mend brings the records that an upgrade reads to what the cluster serves. A cluster that
// was upgraded no longer serves some API versions, and Helm refuses to read a record with
// one of them: it can neither upgrade nor remove the release. The objects themselves are
// there, in a version that is served, or are gone with their kind.
func (o *operation) mend() error {
	records := []*engine.Release{o.from()}
	if o.resend && o.last != records[0] {
		records = append(records, o.last)
	}
	for _, r := range records {
		if r == nil {
			continue
		}
		manifest, changes, err := o.served(r.Manifest)
		if err != nil || len(changes) == 0 {
			if err != nil {
				return fmt.Errorf("revision %d: %w", r.Version, err)
			}
			continue
		}
		r.Manifest = manifest
		if err := o.write(r); err != nil {
			return kubeerr.Explain(fmt.Errorf("mending the record of revision %d: %w", r.Version, cause(o.ctx, err)),
				kubeerr.Op{Verb: "update", Namespace: o.Namespace})
		}
		o.reporter.Report(runner.Report{
			Type:    runner.TypeLog,
			Message: fmt.Sprintf("the record of revision %d is mended, since the cluster no longer serves what it says: %s", r.Version, strings.Join(changes, ", ")),
		})
	}
	return nil
}

// separator parts the documents of a manifest.
var separator = regexp.MustCompile(`(?m)^---[ \t]*\n`)

// served is a manifest with API versions that the cluster serves, and says what was
// changed for it. Objects of kinds that are gone altogether are left out.
func (o *operation) served(manifest string) (string, []string, error) {
	var changes, kept []string
	documents := separator.Split(manifest, -1)
	for _, d := range documents {
		objects, err := charts.Decode(d)
		if err != nil {
			return manifest, nil, nil // Helm says what is wrong with it
		}
		text := d
		for _, u := range objects {
			was := u.GroupVersionKind()
			now, state, err := o.servedAs(was)
			switch {
			case err != nil:
				return "", nil, err
			case state == isServed:
				continue
			case state == isGone && len(objects) == 1:
				changes = append(changes, fmt.Sprintf("%s of %s is left out", watch.TargetOf(u).Object(), was.GroupVersion()))
				text = ""
			case state == isGone:
				return "", nil, runner.WithHint(runner.Permanent(fmt.Errorf("%s of %s is in a list, and the cluster does not serve its kind any more", watch.TargetOf(u).Object(), was.GroupVersion())),
					"part the list in the chart, uninstall the release with kplan down, and install it again")
			default:
				if text, err = rewritten(text, u, now); err != nil {
					return "", nil, err
				}
				changes = append(changes, fmt.Sprintf("%s is of %s, was of %s", watch.TargetOf(u).Object(), now.GroupVersion(), was.GroupVersion()))
			}
		}
		kept = append(kept, text)
	}
	if len(changes) == 0 {
		return manifest, nil, nil
	}
	return strings.Join(kept, "---\n"), changes, nil
}

// service is whether the cluster serves a kind.
type service int

const (
	isServed service = iota
	isMoved
	isGone
)

// servedAs finds how the cluster serves a kind that a record has. One that may come yet
// counts as served: it is waited for.
func (o *operation) servedAs(kind schema.GroupVersionKind) (schema.GroupVersionKind, service, error) {
	_, err := o.client.session.Cluster.Mapping(o.ctx, kind)
	if !meta.IsNoMatchError(err) {
		return kind, isServed, err
	}
	now, err := servedVersion(o.ctx, o.client.session.Cluster, kind)
	if err == nil {
		return now, isMoved, nil
	}
	if !meta.IsNoMatchError(err) {
		return kind, isServed, err
	}
	if awaited, err := watch.Missing(o.ctx, o.client.session, kind); err == nil && len(awaited) > 0 {
		return kind, isServed, nil
	}
	return kind, isGone, nil
}

// mapper finds the resource of a kind; without a version the preferred one.
type mapper interface {
	Mapping(context.Context, schema.GroupVersionKind) (*meta.RESTMapping, error)
}

// servedVersion is the version in which a kind is served that is not in its own.
func servedVersion(ctx context.Context, m mapper, kind schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	kind.Version = ""
	found, err := m.Mapping(ctx, kind)
	if to, ok := moved[kind.GroupKind()]; meta.IsNoMatchError(err) && ok {
		kind.Group = to
		found, err = m.Mapping(ctx, kind)
	}
	if err != nil {
		return kind, err
	}
	return found.GroupVersionKind, nil
}

// rewritten is a document with another apiVersion of one object. All else stays as it was
// written, unless the object is written in a way that hides where its apiVersion stands.
func rewritten(document string, u *unstructured.Unstructured, to schema.GroupVersionKind) (string, error) {
	old := regexp.MustCompile(`("?apiVersion"?[ \t]*:[ \t]*)["']?` + regexp.QuoteMeta(u.GetAPIVersion()) + `["']?`)
	for _, at := range old.FindAllStringSubmatchIndex(document, -1) {
		version := to.GroupVersion().String()
		if document[at[3]] == '"' || document[at[2]] == '"' { // JSON
			version = `"` + version + `"`
		}
		text := document[:at[3]] + version + document[at[1]:]
		objects, err := charts.Decode(text)
		if err != nil {
			continue
		}
		for _, now := range objects {
			if now.GroupVersionKind() == to && now.GetName() == u.GetName() && now.GetNamespace() == u.GetNamespace() {
				return text, nil
			}
		}
	}
	objects, err := charts.Decode(document)
	if err != nil || len(objects) != 1 {
		return "", fmt.Errorf("the apiVersion of %s cannot be found in its record", watch.TargetOf(u).Object())
	}
	objects[0].SetGroupVersionKind(to)
	b, err := yaml.Marshal(objects[0].Object)
	return string(b), err
}
