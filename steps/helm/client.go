package helm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/helm/sequence"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/stall"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// client is a Helm engine's client with waits of our own: by watch, and ended by the
// attempt's context, which Helm's interface has no place for.
type client struct {
	engine.Client
	sender
	namespace string // of the release
	ctx       context.Context
	reporter  runner.Reporter
	records   *recorder
	// plan is the name of the plan that is run; it may be empty.
	plan string
	// before gives the objects of failed installs that this one goes on with; it
	// is nil for all else.
	before func() (engine.ResourceList, error)
	// waited are the objects that Helm waited for last: in the end, the release's.
	waited engine.ResourceList
	// missed are those that were held when Helm waited for them.
	missed []watch.Target
	hooks  hookRuns

	mu sync.Mutex
	// applied are the objects that were sent, or found unchanged, without hooks.
	applied []runner.Applied
	// failure is the last error: Helm keeps only the text of a hook's
	// (helm.sh/helm/v3 pkg/action/install.go, performInstall).
	failure error
	// checked are the objects of the manifest that Helm looked at last before it sent any.
	checked engine.ResourceList
}

var _ engine.Host = (*client)(nil)

// Build reads objects. Kinds that are not known are looked up with fresh
// discovery, and waited for where another step brings them: it may have ended
// before they are served.
func (c *client) Build(r io.Reader, validate bool) (engine.ResourceList, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	resources, err := c.Client.Build(bytes.NewReader(b), validate)
	if err != nil && strings.Contains(err.Error(), "no matches for kind") {
		if err := c.await(string(b)); err != nil {
			return nil, c.note(err)
		}
		resources, err = c.Client.Build(bytes.NewReader(b), validate)
	}
	if err != nil {
		return nil, err
	}
	if validate {
		c.checked = resources
	}
	return resources, c.lookAhead(resources)
}

// await waits for the kinds of a manifest that other steps bring.
func (c *client) await(manifest string) error {
	objects, err := charts.Decode(manifest)
	if err != nil {
		return err
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for _, o := range objects {
		kinds[o.GroupVersionKind()] = true
	}
	missing, err := watch.Missing(c.ctx, c.session, slices.Collect(maps.Keys(kinds))...)
	if err != nil {
		return c.otherVersion(cause(c.ctx, err), kinds)
	}
	return watch.Await(c.ctx, c.session, c.reporter, missing...)
}

// otherVersion adds to the error of kinds that are not served in which version they are:
// the chart is older than the cluster.
func (c *client) otherVersion(err error, kinds map[schema.GroupVersionKind]bool) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	for kind := range kinds {
		_, unserved := c.session.Cluster.Mapping(c.ctx, kind)
		if !meta.IsNoMatchError(unserved) {
			continue
		}
		if now, none := servedVersion(c.ctx, c.session.Cluster, kind); none == nil {
			return runner.WithHint(runner.Permanent(unserved), fmt.Sprintf("the cluster serves %s as %s: take a version of the chart that knows it", kind.Kind, now.GroupVersion()))
		}
	}
	return err
}

// Wait waits until the objects are ready that Helm's own wait looks at, with Jobs or
// without; the timeout is the step's own.
func (c *client) Wait(resources engine.ResourceList, jobs bool) error {
	c.waited = resources
	return c.ready(resources, targets(resources, func(kind schema.GroupVersionKind) bool {
		return isAwaited(kind) || jobs && kind.GroupKind() == job
	}))
}

// settled waits for the custom resources among the objects that Helm waited for.
// Helm is done by then, and so are its hooks, which may be what makes them ready.
func (c *client) settled() error {
	return c.until(targets(c.waited, isCustom), watch.Wait{Judge: c.isReady})
}

// ready waits for objects, and for the API server to serve the kinds among
// them: Helm reads the objects of new kinds right after. Those that are held are
// waited for when all is sent; see gathered.
func (c *client) ready(resources engine.ResourceList, ts []watch.Target) error {
	pending := c.order.Pending()
	ts = slices.DeleteFunc(ts, func(t watch.Target) bool {
		held := slices.ContainsFunc(pending, func(it *sequence.Item) bool {
			return it.Kind == t.Kind && it.Namespace == t.Namespace && it.Name == t.Name
		})
		if held {
			c.missed = append(c.missed, t)
		}
		return held
	})
	if err := c.until(ts, watch.Wait{Judge: c.isReady}); err != nil {
		return err
	}
	var served []schema.GroupVersionKind
	_ = resources.Visit(func(i *resource.Info, err error) error {
		if err != nil || i.Mapping.GroupVersionKind.Kind != "CustomResourceDefinition" {
			return nil
		}
		if o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(i.Object); err == nil {
			served = append(served, kinds.DefinitionOf(&unstructured.Unstructured{Object: o}).Kinds()...)
		}
		return nil
	})
	return c.note(c.session.Cluster.Served(c.ctx, served))
}

// WatchUntilReady waits until a hook's Jobs and Pods have run to their end;
// other kinds are done when they are created. It does not wait when the step
// waits for nothing.
func (c *client) WatchUntilReady(resources engine.ResourceList) error {
	defer c.revision.did(resources)
	if c.ignoreHooks {
		c.hooks.end(runner.HookCreated, nil)
		return nil
	}
	ts := targets(resources, func(kind schema.GroupVersionKind) bool { return runsToItsEnd(kind.GroupKind()) })
	for _, t := range ts {
		c.reporter.Report(runner.Report{Type: runner.TypeProgress, Object: t.Object(), Message: "hook " + t.Object()})
	}
	if err := c.until(ts, watch.Wait{Judge: ended, Limits: &stall.Hooks, Patience: hookPatience}); err != nil {
		c.hooks.end(runner.HookFailed, err)
		return c.note(c.hooks.explained(err))
	}
	c.hooks.end(runner.HookSucceeded, nil)
	c.records.ran()
	return nil
}

// hookPatience is how long a hook runs before it is looked at why it does not end: its
// pods are read then, as podlog does from the start.
const hookPatience = 2 * time.Second

// WaitForDelete waits until the objects are gone.
func (c *client) WaitForDelete(resources engine.ResourceList) error {
	return c.until(targets(resources, nil), watch.Wait{For: "deletion", Judge: absent, Deletion: true})
}

func (c *client) until(ts []watch.Target, w watch.Wait) error {
	if len(ts) == 0 {
		return nil
	}
	w.Targets = ts
	w.Notice = func(s string) { c.reporter.Report(runner.Report{Type: runner.TypeLog, Message: s}) }
	w.Changed = func(ch watch.Change) {
		message := ch.Target.Object()
		if ch.Reading.Reason != "" {
			message += ": " + ch.Reading.Reason
		}
		c.reporter.Report(runner.Report{
			Type: runner.TypeProgress, Object: ch.Target.Object(), Done: ch.Ready, Total: ch.Total, Message: message,
		})
	}
	// What is held goes on meanwhile; its failure ends the wait.
	return c.note(c.order.While(c.ctx, func(ctx context.Context) error { return watch.Until(ctx, c.session, w) }))
}

func (c *client) progress(format string, args ...any) {
	c.reporter.Report(runner.Report{Type: runner.TypeProgress, Message: fmt.Sprintf(format, args...)})
}

// keep notes that an object was sent, or is unchanged. That a namespace was made
// is told at once: another attempt would find it there.
func (c *client) keep(info *resource.Info, created bool) {
	if isHook(info) {
		return
	}
	kind := info.Mapping.GroupVersionKind
	o := runner.Applied{
		Group: kind.Group, Version: kind.Version, Kind: kind.Kind,
		Namespace: info.Namespace, Name: info.Name, Created: created,
	}
	c.mu.Lock()
	c.applied = append(c.applied, o)
	c.mu.Unlock()
	if created && kind.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		c.reporter.Report(runner.Report{
			Type: runner.TypeProgress, Object: objectOf(info), Message: objectOf(info) + " created", Objects: []runner.Applied{o},
		})
	}
}

// note keeps the last error.
func (c *client) note(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failure = err
	}
	return err
}

// targets are the objects of the kinds that keep says yes to; all without.
func targets(resources engine.ResourceList, keep func(schema.GroupVersionKind) bool) []watch.Target {
	var ts []watch.Target
	_ = resources.Visit(func(i *resource.Info, err error) error {
		kind := i.Mapping.GroupVersionKind
		if err == nil && (keep == nil || keep(kind)) {
			ts = append(ts, watch.Target{Kind: kind, Namespace: i.Namespace, Name: i.Name})
		}
		return nil
	})
	return ts
}

// absent judges an object that is to be gone.
func absent(_ watch.Target, u *unstructured.Unstructured) watch.Reading {
	if u == nil {
		return watch.Reading{State: watch.Reached}
	}
	if f := u.GetFinalizers(); len(f) > 0 {
		return watch.Reading{State: watch.Waiting, Reason: fmt.Sprintf("waits for finalizers %v", f)}
	}
	return watch.Reading{State: watch.Waiting, Reason: "still there"}
}

// ended judges the Job or Pod of a hook.
func ended(t watch.Target, u *unstructured.Unstructured) watch.Reading {
	if u == nil || t.Kind.GroupKind() == job {
		return watch.Ready(u)
	}
	switch phase := podPhase(u); phase {
	case corev1.PodSucceeded:
		return watch.Reading{State: watch.Reached}
	case corev1.PodFailed:
		return watch.Reading{State: watch.Failed, Reason: "pod failed"}
	default:
		return watch.Reading{State: watch.Waiting, Reason: string(phase)}
	}
}

func podPhase(u *unstructured.Unstructured) corev1.PodPhase {
	if u == nil {
		return corev1.PodUnknown
	}
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return corev1.PodPhase(phase)
}

// count is a number of objects in words.
func count(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}
