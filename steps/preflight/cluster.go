package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/webhook"
)

// clusterChecker checks the steps of one cluster.
type clusterChecker struct {
	*checker
	session *cluster.Session
	has     charts.Capabilities
	steps   []*step
	exists  map[string]bool // namespaces
}

// inFlight bounds the requests on their way.
const inFlight = 16

// check checks the steps that were read. The error says that the cluster could not be
// asked.
func (c *clusterChecker) check(ctx context.Context) error {
	c.relate()
	var sends errgroup.Group
	sends.SetLimit(inFlight)
	for _, s := range c.steps {
		if len(s.Deferred()) > 0 {
			continue
		}
		if err := c.types(ctx, s); err != nil {
			return err
		}
		objects, err := c.known(ctx, s)
		if err != nil {
			return err
		}
		for _, o := range objects {
			sends.Go(func() error {
				c.send(ctx, s, o)
				return nil
			})
		}
	}
	_ = sends.Wait()
	return context.Cause(ctx)
}

// types looks for the types that a step names.
func (c *clusterChecker) types(ctx context.Context, s *step) error {
	type named struct {
		typ    string
		fields []any
	}
	var all []named
	if s.Wait != nil {
		typ, _, _ := strings.Cut(s.Wait.Resource, "/")
		if s.Wait.For != string(plan.ConditionDelete) { // a kind that is not there has no objects
			all = append(all, named{typ, []any{"wait", "resource"}})
		}
	}
	for name, o := range s.Outputs {
		typ, _, _ := strings.Cut(o.Resource, "/")
		all = append(all, named{typ, []any{"outputs", name, "resource"}})
	}
	for _, n := range all {
		_, err := c.session.Cluster.MappingFor(ctx, n.typ)
		brings := func(b *brings) bool { return b.names(n.typ) }
		switch {
		case err == nil:
		case !meta.IsNoMatchError(err):
			return fmt.Errorf("looking for the type %q: %w", n.typ, err)
		case !c.earlier(s, brings):
			rule, hint := Kind, c.bringer(s, brings)
			message := fmt.Sprintf("the cluster does not know the type %q, and no step before brings it", n.typ)
			if p := s.neighbours().Run(); p.Comes {
				rule, hint, message = Unchecked, "", fmt.Sprintf("the cluster does not know the type %q yet: %s", n.typ, p.Why)
			} else if slices.ContainsFunc(s.beside, func(other *step) bool { return brings(other.brings) }) {
				rule = Unchecked
			}
			c.find(rule, s.Step, hint, message, n.fields...)
		}
	}
	return nil
}

// earlier reports whether the step itself, or one before it, brings something.
func (c *clusterChecker) earlier(s *step, brings func(*brings) bool) bool {
	return brings(s.brings) || slices.ContainsFunc(s.before, func(other *step) bool { return brings(other.brings) })
}

// bringer says what to do about something that no step before brings.
func (c *clusterChecker) bringer(s *step, brings func(*brings) bool) string {
	for _, other := range c.steps {
		if other != s && brings(other.brings) {
			return fmt.Sprintf("the step %q brings it: add it to needs", other.Name)
		}
	}
	return "a step that installs it belongs in needs; if a controller makes it, wait for it in a step before"
}

// sendable is an object that can be sent as a dry run.
type sendable struct {
	manifest.Object
	mapping *meta.RESTMapping
}

// known looks for the kinds and namespaces of a step's objects, and gives those
// objects that the API server can judge now.
func (c *clusterChecker) known(ctx context.Context, s *step) ([]sendable, error) {
	var out []sendable
	told := map[string]bool{}
	first := func(key string) bool {
		before := told[key]
		told[key] = true
		return !before
	}
	for _, o := range s.objects {
		gvk := o.GroupVersionKind()
		brought := c.earlier(s, func(b *brings) bool { return b.defines(gvk.GroupKind()) })
		mapping, err := c.session.Cluster.Mapping(ctx, gvk)
		switch {
		case err == nil:
		case !meta.IsNoMatchError(err):
			return nil, fmt.Errorf("looking for the kind %s: %w", gvk.Kind, err)
		case first(gvk.String()):
			c.unserved(ctx, s, o)
		}
		if err != nil || brought { // a definition that changes may have another schema by then
			continue
		}
		if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			o.SetNamespace("")
			out = append(out, sendable{o, mapping})
			continue
		}
		if s.Helm != nil && gvk.Kind == "Job" {
			continue // hooks are deleted before they are made anew, and a Job cannot be changed
		}
		exists, err := c.namespace(ctx, o.GetNamespace())
		made := func(b *brings) bool { return b.namespaces[o.GetNamespace()] }
		switch {
		case err != nil:
			return nil, err
		case exists:
			out = append(out, sendable{o, mapping})
		case !c.earlier(s, made) && first("namespace "+o.GetNamespace()):
			hint := "make it in a step before"
			if s.Helm != nil {
				hint += ", or with create_namespace: true"
			}
			message := from(o) + fmt.Sprintf("the namespace %q does not exist, and no step before makes it", o.GetNamespace())
			c.find(Namespace, s.Step, hint, message, s.fields(o)...)
		}
	}
	return out, nil
}

// unserved says what is to be said of an object whose kind the cluster does not
// serve; nothing when a step before brings it.
func (c *clusterChecker) unserved(ctx context.Context, s *step, o manifest.Object) {
	gvk := o.GroupVersionKind()
	defines := func(b *brings) bool { return b.defines(gvk.GroupKind()) }
	p := s.neighbours().Find(gvk)
	switch {
	case p.Comes && p.Definition != "" && !p.Beside,
		defines(s.brings), // by itself
		c.earlier(s, func(b *brings) bool { return b.waitsFor(gvk.GroupKind()) }):
		return
	case p.Comes:
		hint := ""
		if p.Beside {
			hint = c.bringer(s, defines)
		}
		message := fmt.Sprintf("the cluster does not know the kind %s of %s yet: %s", gvk.Kind, gvk.GroupVersion(), p.Why)
		c.find(Unchecked, s.Step, hint, from(o)+message, s.fields(o)...)
		return
	}
	why, hint := "no step before brings it", c.bringer(s, defines)
	if p.Why != "" {
		why, hint = p.Why, "let the object and the definition agree on a version"
	}
	message := fmt.Sprintf("the cluster does not know the kind %s of %s%s, and %s", gvk.Kind, gvk.GroupVersion(), c.otherVersion(ctx, gvk), why)
	c.find(Kind, s.Step, hint, from(o)+message, s.fields(o)...)
}

// neighbours are the steps around one, as far as kinds go.
func (s *step) neighbours() kinds.Neighbours {
	origins := func(steps []*step) []*kinds.Step {
		var all []*kinds.Step
		for _, other := range steps {
			all = append(all, other.origin)
		}
		return all
	}
	return kinds.Neighbours{Own: s.origin, Before: origins(s.before), Beside: origins(s.beside)}
}

// from is the start of a message on an object of a file.
func from(o manifest.Object) string {
	if o.File == "" {
		return ""
	}
	return o.Source + ": "
}

// otherVersion tells of a kind that the cluster has in another version.
func (c *clusterChecker) otherVersion(ctx context.Context, gvk schema.GroupVersionKind) string {
	m, err := c.session.Cluster.Mapping(ctx, gvk.GroupKind().WithVersion(""))
	if err != nil {
		return ""
	}
	return ", but of " + m.GroupVersionKind.GroupVersion().String()
}

// namespace reports whether a namespace exists. One that may not be read does.
func (c *clusterChecker) namespace(ctx context.Context, name string) (bool, error) {
	if exists, known := c.exists[name]; known {
		return exists, nil
	}
	_, err := c.session.Clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return false, fmt.Errorf("looking for the namespace %q: %w", name, err)
	}
	c.exists[name] = !apierrors.IsNotFound(err)
	return c.exists[name], nil
}

// send asks the API server what it says to an object, by a dry run.
func (c *clusterChecker) send(ctx context.Context, s *step, o sendable) {
	body, err := json.Marshal(o.Unstructured)
	if err == nil {
		_, err = c.session.Resource(o.mapping, o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, body, s.dryRun())
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	rule := Refused
	if cannotTell(err) {
		rule = Unchecked
	}
	err = kubeerr.Explain(kubeerr.Redact(err, o.Unstructured), kubeerr.Op{Verb: "patch", Resource: o.mapping.Resource.GroupResource(), Namespace: o.GetNamespace()})
	c.find(rule, s.Step, runner.HintOf(err), from(o.Object)+o.ID()+": "+err.Error(), s.fields(o.Object)...)
}

// cannotTell says of an error that it is no judgement of the object: a webhook
// does not answer, or not to dry runs.
func cannotTell(err error) bool {
	for _, f := range webhook.Faults(err) {
		if f.Class != webhook.None && f.Class != webhook.Denied {
			return true
		}
	}
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && strings.Contains(status.Status().Message, "does not support dry run")
}
