package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
)

// Step is a step with what it sends.
type Step struct {
	plan.Step
	// Before are the names of the steps that it needs, directly or not; Beside are
	// those of steps that may run at the same time.
	Before, Beside []string
	Objects        []Object
	// Unread says that the objects are not known.
	Unread bool
}

// Object is one that a step sends.
type Object struct {
	manifest.Object
	// Fields lead to what names it in the step.
	Fields []any
	// Manager is the field manager that sends it; Force takes fields over, and
	// Validation is what the API server does about unknown fields.
	Manager    string
	Force      bool
	Validation string
}

// Cluster checks the steps of one cluster.
type Cluster struct {
	Session *cluster.Session
	// Steps are the plan's steps on the cluster.
	Steps []Step

	brings  map[string]*brings
	origins map[string]*kinds.Step

	mu       sync.Mutex
	findings []finding.Finding
	exists   map[string]bool // namespaces
}

// inFlight bounds the requests on their way.
const inFlight = 16

// Run checks all steps. The findings are in no order. The error says that the
// cluster could not be asked.
func (c *Cluster) Run(ctx context.Context) ([]finding.Finding, error) {
	c.brings = map[string]*brings{}
	c.origins = map[string]*kinds.Step{}
	c.exists = map[string]bool{}
	for _, s := range c.Steps {
		c.brings[s.Name], c.origins[s.Name] = broughtBy(s), originOf(s)
	}
	var (
		wg    sync.WaitGroup
		slots = make(chan struct{}, inFlight)
	)
	for _, s := range c.Steps {
		if len(s.Deferred()) > 0 {
			continue
		}
		if err := c.types(ctx, s); err != nil {
			return nil, err
		}
		objects, err := c.known(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				c.send(ctx, s, o)
			})
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return c.findings, nil
}

func (c *Cluster) find(f finding.Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings = append(c.findings, f)
}

// types looks for the types that a step names.
func (c *Cluster) types(ctx context.Context, s Step) error {
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
		_, err := c.Session.Cluster.MappingFor(ctx, n.typ)
		brings := func(b *brings) bool { return b.names(n.typ) }
		switch {
		case err == nil:
		case !meta.IsNoMatchError(err):
			return fmt.Errorf("looking for the type %q: %w", n.typ, err)
		case !c.earlier(s, brings):
			rule, hint := Kind, c.bringer(s, brings)
			message := fmt.Sprintf("the cluster does not know the type %q, and no step before brings it", n.typ)
			if p := c.neighbours(s).Run(); p.Comes {
				rule, hint, message = Unchecked, "", fmt.Sprintf("the cluster does not know the type %q yet: %s", n.typ, p.Why)
			} else if c.beside(s, brings) {
				rule = Unchecked
			}
			c.find(Find(rule, s.Step, hint, message, n.fields...))
		}
	}
	return nil
}

// earlier tells whether the step itself, or one before it, brings something.
func (c *Cluster) earlier(s Step, brings func(*brings) bool) bool {
	return brings(c.brings[s.Name]) || slices.ContainsFunc(s.Before, func(name string) bool {
		b := c.brings[name]
		return b != nil && brings(b)
	})
}

// beside tells whether a step that may run at the same time brings something.
func (c *Cluster) beside(s Step, brings func(*brings) bool) bool {
	return slices.ContainsFunc(s.Beside, func(name string) bool {
		b := c.brings[name]
		return b != nil && brings(b)
	})
}

// bringer says what to do about something that no step before brings.
func (c *Cluster) bringer(s Step, brings func(*brings) bool) string {
	for _, other := range c.Steps {
		if other.Name != s.Name && brings(c.brings[other.Name]) {
			return fmt.Sprintf("the step %q brings it: add it to needs", other.Name)
		}
	}
	return "a step that installs it belongs in needs; if a controller makes it, wait for it in a step before"
}

// sendable is an object that can be sent as a dry run.
type sendable struct {
	Object
	mapping *meta.RESTMapping
}

// known looks for the kinds and namespaces of a step's objects, and gives those
// objects that the API server can judge now.
func (c *Cluster) known(ctx context.Context, s Step) ([]sendable, error) {
	var out []sendable
	told := map[string]bool{}
	once := func(key string, f finding.Finding) {
		if !told[key] {
			told[key] = true
			c.find(f)
		}
	}
	for _, o := range s.Objects {
		gvk := o.GroupVersionKind()
		brought := c.earlier(s, func(b *brings) bool { return b.defines(gvk.GroupKind()) })
		mapping, err := c.Session.Cluster.Mapping(ctx, gvk)
		switch {
		case err == nil:
		case !meta.IsNoMatchError(err):
			return nil, fmt.Errorf("looking for the kind %s: %w", gvk.Kind, err)
		default:
			if f, found := c.unserved(ctx, s, o); found {
				once(gvk.String(), f)
			}
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
		case !c.earlier(s, made):
			hint := "make it in a step before"
			if s.Helm != nil {
				hint += ", or with create_namespace: true"
			}
			message := o.from() + fmt.Sprintf("the namespace %q does not exist, and no step before makes it", o.GetNamespace())
			once("namespace "+o.GetNamespace(), Find(Namespace, s.Step, hint, message, o.Fields...))
		}
	}
	return out, nil
}

// unserved says what is to be said of an object whose kind the cluster does not
// serve; nothing when a step before brings it.
func (c *Cluster) unserved(ctx context.Context, s Step, o Object) (finding.Finding, bool) {
	gvk := o.GroupVersionKind()
	defines := func(b *brings) bool { return b.defines(gvk.GroupKind()) }
	p := c.neighbours(s).Find(gvk)
	switch {
	case p.Comes && p.Definition != "" && !p.Beside,
		defines(c.brings[s.Name]), // by itself
		c.earlier(s, func(b *brings) bool { return b.waitsFor(gvk.GroupKind()) }):
		return finding.Finding{}, false
	case p.Comes:
		hint := ""
		if p.Beside {
			hint = c.bringer(s, defines)
		}
		message := fmt.Sprintf("the cluster does not know the kind %s of %s yet: %s", gvk.Kind, gvk.GroupVersion(), p.Why)
		return Find(Unchecked, s.Step, hint, o.from()+message, o.Fields...), true
	}
	why, hint := "no step before brings it", c.bringer(s, defines)
	if p.Why != "" {
		why, hint = p.Why, "let the object and the definition agree on a version"
	}
	message := fmt.Sprintf("the cluster does not know the kind %s of %s%s, and %s", gvk.Kind, gvk.GroupVersion(), c.otherVersion(ctx, gvk), why)
	return Find(Kind, s.Step, hint, o.from()+message, o.Fields...), true
}

// neighbours are the steps around one, as far as kinds go.
func (c *Cluster) neighbours(s Step) kinds.Neighbours {
	n := kinds.Neighbours{Own: c.origins[s.Name]}
	add := func(to *[]*kinds.Step, names []string) {
		for _, name := range names {
			if o := c.origins[name]; o != nil { // on this cluster
				*to = append(*to, o)
			}
		}
	}
	add(&n.Before, s.Before)
	add(&n.Beside, s.Beside)
	return n
}

// from is the start of a message on an object of a file.
func (o Object) from() string {
	if o.File == "" {
		return ""
	}
	return o.Source + ": "
}

func (o Object) id() string { t := watch.TargetOf(o.Unstructured); return t.Object() }

// otherVersion tells of a kind that the cluster has in another version.
func (c *Cluster) otherVersion(ctx context.Context, gvk schema.GroupVersionKind) string {
	m, err := c.Session.Cluster.Mapping(ctx, gvk.GroupKind().WithVersion(""))
	if err != nil {
		return ""
	}
	return ", but of " + m.GroupVersionKind.GroupVersion().String()
}

// namespace tells whether a namespace exists. One that may not be read does.
func (c *Cluster) namespace(ctx context.Context, name string) (bool, error) {
	if exists, known := c.exists[name]; known {
		return exists, nil
	}
	_, err := c.Session.Clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return false, fmt.Errorf("looking for the namespace %q: %w", name, err)
	}
	c.exists[name] = !apierrors.IsNotFound(err)
	return c.exists[name], nil
}

// send asks the API server what it says to an object, by a dry run.
func (c *Cluster) send(ctx context.Context, s Step, o sendable) {
	body, err := json.Marshal(o.Unstructured)
	if err == nil {
		_, err = c.Session.Resource(o.mapping, o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
			DryRun: []string{metav1.DryRunAll}, FieldManager: o.Manager, Force: new(o.Force), FieldValidation: o.Validation,
		})
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	rule := Refused
	if cannotTell(err) {
		rule = Unchecked
	}
	err = kubeerr.Explain(kubeerr.Redact(err, o.Unstructured), kubeerr.Op{Verb: "patch", Resource: o.mapping.Resource.GroupResource(), Namespace: o.GetNamespace()})
	c.find(Find(rule, s.Step, runner.HintOf(err), o.from()+o.id()+": "+err.Error(), o.Fields...))
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
