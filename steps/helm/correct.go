package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/drift"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// manager is the field manager of what Helm sends.
const manager = engine.Manager

// correction does with the drift of a deployed revision what the step says: it puts
// objects right, or tells what is not as it was rendered.
type correction struct {
	*Action
	client   *client
	reporter runner.Reporter
	// serverSide says that the release's objects are applied by the server.
	serverSide bool
}

// right does with the drift of an unchanged release what the step says.
func (co *correction) right(d *Drift) error {
	var told []Changed
	for _, c := range d.Changed {
		if len(c.Fields) > 0 {
			told = append(told, c)
		}
	}
	switch {
	case len(told) == 0:
		return nil
	case co.Spec.Drift == plan.ReportDrift:
		co.tell("drift, left as it is", told)
		return nil
	}
	corrected, err := co.apply(told)
	co.tell("drift, put right", corrected)
	for _, c := range corrected {
		co.corrected.Add(int64(len(c.Fields)))
	}
	if err == nil {
		return nil
	}
	return runner.WithHint(fmt.Errorf("putting drift right: %w", err),
		"let the values say what is to be; drift: report or ignore leaves the objects as they are")
}

// tell says what was changed, for each object.
func (co *correction) tell(what string, changed []Changed) {
	for _, c := range changed {
		c.Fields = slices.Clone(c.Fields)
		for i, f := range c.Fields {
			c.Fields[i] = f.Hidden(co.options.Hide)
			name := c.Object + " " + f.Path
			if by := f.Owner.String(); by != "" {
				name += " (set by " + by + ")"
			}
			co.drifted = append(co.drifted, name)
		}
		co.reporter.Report(runner.Report{Type: runner.TypeLog, Object: c.Object, Message: what + ": " + c.String()})
	}
}

// missed tells which objects are gone and are left so, and returns the others.
func (co *correction) missed(d *Drift, resources engine.ResourceList) engine.ResourceList {
	if len(d.Gone) == 0 {
		return resources
	}
	co.drifted = append(co.drifted, d.Gone...)
	co.reporter.Report(runner.Report{Type: runner.TypeLog, Message: "drift, left as it is: gone from the cluster: " + some(d.Gone)})
	return resources.Filter(func(info *resource.Info) bool { return !slices.Contains(d.Gone, objectOf(info)) })
}

// apply puts objects right, in the release's order but for those that are held, and
// returns those that were changed by that: what the API server or a webhook makes of
// a field is no drift, and shows in that nothing changes.
func (co *correction) apply(changed []Changed) ([]Changed, error) {
	c := co.client
	c.revision = revision{namespace: c.namespace, later: map[identity]*unstructured.Unstructured{}}
	resources := make(engine.ResourceList, len(changed))
	at := map[*resource.Info]int{}
	for i, ch := range changed {
		resources[i] = ch.info
		at[ch.info] = i
		content, err := contentOf(ch.info)
		if err != nil {
			return nil, err
		}
		c.revision.later[c.revision.identity(content.GroupVersionKind().GroupKind(), ch.info.Namespace, ch.info.Name)] = content
	}
	secrets := secretsOf(resources)
	var mu sync.Mutex
	put := make([]bool, len(changed))
	items := c.items(resources, func(info, own *resource.Info) error {
		i := at[info]
		did, err := co.patch(own, changed[i])
		mu.Lock()
		defer mu.Unlock()
		put[i] = did
		return withoutSecrets(err, secrets)
	})
	for _, batch := range byKind(items) {
		c.send(batch...)
	}
	err := c.gather(resources)
	if err == nil {
		err = c.order.Gather(nil)
	}
	mu.Lock()
	defer mu.Unlock()
	var out []Changed
	for i, ch := range changed {
		if put[i] {
			out = append(out, ch)
		}
	}
	return out, c.note(err)
}

// patch puts the fields of one object right that are not as rendered, and reports
// whether that changed it. Should somebody else write meanwhile, it looks again.
func (co *correction) patch(own *resource.Info, ch Changed) (changed bool, err error) {
	helper := resource.NewHelper(own.Client, own.Mapping).WithFieldManager(manager)
	live, found := ch.Live, ch.Fields
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if live == nil {
			o, err := helper.Get(own.Namespace, own.Name)
			if err != nil {
				return err
			}
			if live, err = unstructuredOf(o); err != nil {
				return err
			}
			found, _ = ch.judge(live)
		}
		before := live
		live = nil
		if len(found) == 0 {
			return nil
		}
		body, err := drift.Patch(before, found)
		if err != nil {
			return err
		}
		answer, err := helper.Patch(own.Namespace, own.Name, types.MergePatchType, body, &metav1.PatchOptions{})
		if err != nil {
			return err
		}
		after, err := unstructuredOf(answer)
		changed = err == nil && after.GetResourceVersion() != before.GetResourceVersion()
		if changed && co.serverSide {
			err = handOver(helper, own, after)
		}
		return err
	})
	if apierrors.IsInvalid(err) {
		err = runner.Permanent(err)
	}
	return changed, err
}

// handOver makes of fields that were put right in a live object what Helm applied by the
// server: it gives up no others when the release does not have them any more.
func handOver(helper *resource.Helper, own *resource.Info, live *unstructured.Unstructured) error {
	body, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(manager), manager)
	if err != nil || len(body) == 0 {
		return err
	}
	_, err = helper.Patch(own.Namespace, own.Name, types.JSONPatchType, body, &metav1.PatchOptions{})
	return err
}

// confirmation is how long a dry run may take that tells whether a field is there to
// be put right.
const confirmation = 5 * time.Second

// confirm drops from drift what putting it right would not change, such as fields
// that a kind does not have: nobody owns those. What cannot be told stays.
func (r reader) confirm(ctx context.Context, d *Drift) {
	ctx, cancel := context.WithTimeoutCause(ctx, confirmation, errors.New("the dry run took too long"))
	defer cancel()
	var group errgroup.Group
	group.SetLimit(lookups)
	for i := range d.Changed {
		ch := &d.Changed[i]
		if !slices.ContainsFunc(ch.Fields, func(f drift.Field) bool { return f.Owner.Manager == "" }) {
			continue
		}
		group.Go(func() error {
			body, err := drift.Patch(ch.Live, ch.Fields)
			if err != nil {
				return err
			}
			after, err := r.session.Resource(ch.info.Mapping, ch.info.Namespace).Patch(ctx, ch.info.Name, types.MergePatchType, body,
				metav1.PatchOptions{FieldManager: manager, DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			still := map[string]bool{}
			for _, f := range drift.All(ch.manifest, after) {
				still[f.Path] = true
			}
			ch.Fields = slices.DeleteFunc(ch.Fields, func(f drift.Field) bool { return still[f.Path] })
			return nil
		})
	}
	_ = group.Wait()
	d.Changed = slices.DeleteFunc(d.Changed, func(c Changed) bool { return len(c.Fields)+len(c.Left) == 0 })
}

func unstructuredOf(o runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
