package helm

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// failedInstalls are the failed installs of a release that another goes on with.
type failedInstalls struct {
	release, namespace string
	// revisions are theirs, newest first.
	revisions []*engine.Release
	client    *client
	reporter  runner.Reporter
}

// before are the objects of the failed installs, as the newest of them has each.
func (f failedInstalls) before() (engine.ResourceList, error) {
	var all engine.ResourceList
	for _, r := range f.revisions {
		objects, err := f.client.Client.Build(manifestOf(r), false) // what is not served is not waited for
		if err != nil && strings.Contains(err.Error(), "no matches for kind") {
			continue // of a kind or version that the chart does not bring any more
		}
		if err != nil {
			return nil, fmt.Errorf("reading the objects of revision %d: %w", r.Version, err)
		}
		for _, info := range objects {
			if !all.Contains(info) {
				all.Append(info)
			}
		}
	}
	return all, nil
}

// base is the original of an update: for an install that goes on with failed ones
// Helm has none but the target, and so would leave custom resources as they are.
// How the failed ones sent them is that original, and what is live counts too,
// since each may have failed before it sent them: merge says so.
func (c *client) base(original, target engine.ResourceList) (base engine.ResourceList, merge bool, err error) {
	if c.before == nil {
		return original, false, nil
	}
	before, err := c.before()
	if err != nil {
		return nil, false, err
	}
	base = before.Intersect(target)
	for _, info := range original {
		if !base.Contains(info) {
			base.Append(info)
		}
	}
	return base, true, nil
}

// prune removes what the failed installs left and the release does not have, as
// an upgrade would. Failures are told only: the release is deployed all the same.
func (f failedInstalls) prune(r *engine.Release) {
	left, err := f.leftBehind(r)
	if err == nil && len(left) > 0 {
		_, errs := f.client.Delete(left, metav1.DeletePropagationBackground)
		err = errors.Join(errs...)
	}
	if err != nil {
		f.reporter.Report(runner.Report{Type: runner.TypeLog, Message: "what failed attempts left could not be removed: " + err.Error()})
	}
}

// leftBehind are the release's objects that r does not have.
func (f failedInstalls) leftBehind(r *engine.Release) (engine.ResourceList, error) {
	before, err := f.before()
	if err != nil {
		return nil, err
	}
	target, err := f.client.Build(manifestOf(r), false)
	if err != nil {
		return nil, err
	}
	var left engine.ResourceList
	for _, info := range before.Difference(target) {
		live, err := liveOf(info)
		if err != nil {
			return nil, err
		}
		if live != nil && f.owns(live) {
			left.Append(info)
		}
	}
	return left, nil
}

// owns reports whether a live object is the release's, and to be removed with it.
func (f failedInstalls) owns(live runtime.Object) bool {
	m, err := meta.Accessor(live)
	if err != nil {
		return false
	}
	a := m.GetAnnotations()
	return a["meta.helm.sh/release-name"] == f.release && a["meta.helm.sh/release-namespace"] == f.namespace &&
		a[engine.ResourcePolicyAnno] != engine.KeepPolicy
}

// liveOf reads an object; nil when it is gone.
func liveOf(info *resource.Info) (runtime.Object, error) {
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", objectOf(info), err)
	}
	return live, nil
}
