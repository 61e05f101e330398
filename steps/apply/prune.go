package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/applyset"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// Place is where an object is, whatever its version. Namespace is empty for a kind
// without.
type Place struct {
	schema.GroupKind
	Namespace, Name string
}

// Neighbours is what a step that prunes has to know of the others of its plan.
type Neighbours struct {
	// Plan is the plan's name.
	Plan string
	// Sets has the IDs of the apply sets of the plan's steps on the same cluster.
	Sets map[string]bool
	// Places says which step has an object that another step sends. It is asked for
	// only when something would be deleted. With an *UnreadError it says so of all
	// steps but one, or some.
	Places func(context.Context) (map[Place]string, error)
}

// UnreadError says that nobody knows yet what another step sends.
type UnreadError struct {
	Step string
	Err  error
}

func (e *UnreadError) Error() string {
	return fmt.Sprintf("it is not known yet what the step %s has: %v", e.Step, e.Err)
}

func (e *UnreadError) Unwrap() error { return e.Err }

// pruner keeps the step's apply set, and deletes the members that go. Only the attempt's
// own goroutine uses it.
type pruner struct {
	*Action
	session  *cluster.Session
	reporter reporter
	parents  dynamic.ResourceInterface
	// wanted is what the parent has to name while the step works.
	wanted applyset.Content
	// owed says that the parent is to be written once its namespace is there.
	owed bool
	// pruned is how many members were deleted.
	pruned int
}

func newPruner(a *Action, s *cluster.Session, to runner.Reporter) *pruner {
	return &pruner{
		Action: a, session: s, reporter: reporter{to},
		parents: s.Dynamic.Resource(secrets).Namespace(a.set.Namespace), wanted: applyset.NewContent(),
	}
}

// openSet reads the parent of the step's set, and names in it, before any object is
// sent, where members will be: whatever happens then, the next run finds them.
func (p *pruner) openSet(ctx context.Context, items []*item) error {
	there, err := p.readSet(ctx)
	if err != nil {
		return err
	}
	known := p.wanted
	p.wanted = known.With(p.content(items))
	if there && p.wanted.Equal(known) {
		return nil
	}
	err = p.writeSet(ctx, p.wanted)
	if apierrors.IsNotFound(err) && slices.ContainsFunc(items, func(it *item) bool {
		return it.Kind() == namespaceKind && it.GetName() == p.set.Namespace
	}) {
		p.owed = true
		return nil
	}
	return p.explainSet(ctx, "patch", err)
}

// readSet reads what the parent names, if it is there.
func (p *pruner) readSet(ctx context.Context) (there bool, err error) {
	parent, err := repeated(ctx, p.session, func() (*unstructured.Unstructured, error) {
		return p.parents.Get(ctx, p.set.Name, metav1.GetOptions{})
	})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, p.explainSet(ctx, "get", err)
	}
	p.wanted, err = p.set.Read(parent)
	return true, err
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// content is where the objects of the step are.
func (p *pruner) content(items []*item) applyset.Content {
	c := applyset.NewContent()
	c.Namespaces[p.set.Namespace] = true
	for _, m := range p.manifests {
		c.Kinds[m.Kind()] = true
		// Of a kind that the step itself brings it may not be known yet whether it has
		// namespaces: one too many does no harm.
		if namespaced(m.Kind(), items) {
			c.Namespaces[cmp.Or(m.GetNamespace(), p.namespace)] = true
		}
	}
	return c
}

// namespaced reports whether a kind has namespaces: true while no item is of it.
func namespaced(gk schema.GroupKind, items []*item) bool {
	for _, it := range items {
		if it.Kind() == gk {
			return it.GetNamespace() != ""
		}
	}
	return true
}

func (p *pruner) writeSet(ctx context.Context, c applyset.Content) error {
	_, err := repeated(ctx, p.session, func() (*unstructured.Unstructured, error) {
		return p.parents.Apply(ctx, p.set.Name, p.set.Parent(c), metav1.ApplyOptions{FieldManager: applyset.FieldManager, Force: true})
	})
	return err
}

// namespaceMade writes the parent if that had to wait for the step's namespaces.
func (p *pruner) namespaceMade(ctx context.Context) error {
	if !p.owed {
		return nil
	}
	p.owed = false
	return p.explainSet(ctx, "patch", p.writeSet(ctx, p.wanted))
}

func (p *pruner) explainSet(ctx context.Context, verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	err = kubeerr.Explain(err, kubeerr.Op{Verb: verb, Resource: secrets.GroupResource(), Namespace: p.set.Namespace})
	return kubeerr.Reword(fmt.Sprintf("the parent of the apply set, Secret %s/%s: %v", p.set.Namespace, p.set.Name, err), err)
}

// prune deletes the members that the step's manifests no longer have, and then names
// in the parent where members still are.
func (p *pruner) prune(ctx context.Context, items []*item) error {
	applied := map[types.UID]bool{}
	for _, it := range items {
		applied[it.answer.GetUID()] = true
	}
	going, kept, err := p.toPrune(ctx, func(o removal.Object) bool { return applied[o.GetUID()] })
	if err != nil {
		return err
	}
	for _, k := range kept {
		p.reporter.log(k.ID() + " stays: " + k.Why)
	}
	occupied, err := p.remove(ctx, going)
	if err != nil {
		return err
	}
	p.pruned = len(going) - len(occupied)
	left := p.content(items)
	for _, o := range append(kept, occupied...) { // members still, until another step takes them
		left.Kinds[o.GroupVersionKind().GroupKind()] = true
		if o.GetNamespace() != "" {
			left.Namespaces[o.GetNamespace()] = true
		}
	}
	if left.Equal(p.wanted) {
		return nil
	}
	return p.explainSet(ctx, "patch", p.writeSet(ctx, left))
}

// members are the objects of the set that the step does not apply.
func (p *pruner) members(ctx context.Context, applied func(removal.Object) bool) ([]removal.Object, error) {
	var (
		mu  sync.Mutex
		all []removal.Object
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for gk := range p.wanted.Kinds {
		m, err := repeated(ctx, p.session, func() (*meta.RESTMapping, error) { return removal.Mapping(ctx, p.session, gk.WithVersion("")) })
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue // its members are gone with their kind
		}
		namespaces := []string{""}
		if m.Scope.Name() == "namespace" {
			namespaces = slices.Collect(maps.Keys(p.wanted.Namespaces))
		}
		for _, namespace := range namespaces {
			group.Go(func() error {
				found, err := repeated(ctx, p.session, func() ([]removal.Object, error) {
					return removal.List(ctx, p.session, m, namespace, applyset.PartOf+"="+p.set.ID())
				})
				mu.Lock()
				defer mu.Unlock()
				for _, o := range found {
					if !applied(o) {
						all = append(all, o)
					}
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b removal.Object) int { return strings.Compare(a.ID(), b.ID()) })
	return all, nil
}

// toPrune finds the members that go, and those that stay, of which Why says why.
func (p *pruner) toPrune(ctx context.Context, applied func(removal.Object) bool) (going, kept []removal.Object, err error) {
	members, err := p.members(ctx, applied)
	if err != nil || len(members) == 0 {
		return nil, nil, err
	}
	elsewhere, err := p.neighbours.Places(ctx)
	unread := (*UnreadError)(nil)
	if err != nil && !errors.As(err, &unread) {
		return nil, nil, fmt.Errorf("reading what the plan's other steps have: %w", err)
	}
	for _, o := range members {
		reason := ""
		switch step := elsewhere[Place{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}]; {
		case step != "":
			reason = "the step " + step + " has it now"
		case removal.ReleaseOf(o) != "":
			reason = "it is of the release " + removal.ReleaseOf(o)
		case removal.IsKept(o):
			reason = "helm.sh/resource-policy: keep"
		case o.GetAnnotations()["client.lifecycle.config.k8s.io/deletion"] == "detach":
			reason = "client.lifecycle.config.k8s.io/deletion: detach"
		case unread != nil: // the object may be that step's
			reason = clean.Line(unread.Error())
		}
		if reason != "" {
			o.Why = reason
			kept = append(kept, o)
			continue
		}
		going = append(going, o)
	}
	return going, kept, nil
}

// remove deletes members, namespaces and definitions last: those only if nothing else
// is in them. It returns those that stay.
func (p *pruner) remove(ctx context.Context, going []removal.Object) (occupied []removal.Object, err error) {
	if len(going) == 0 {
		return nil, nil
	}
	var names []string
	for _, o := range going {
		names = append(names, o.ID())
	}
	p.reporter.log("pruning what the manifests no longer have: " + strings.Join(names, ", "))
	remover := &removal.Remover{Session: p.session, Reporter: p.reporter, Total: len(going)}
	isHolder := func(o removal.Object) bool {
		return o.GroupVersionKind().GroupKind() == namespaceKind || kinds.IsDefinition(o.Unstructured)
	}
	if err := p.removeAll(ctx, remover, slices.DeleteFunc(slices.Clone(going), isHolder)); err != nil {
		return nil, err
	}
	var empty []removal.Object
	for _, o := range going {
		if !isHolder(o) {
			continue
		}
		why, err := p.occupied(ctx, o)
		switch {
		case err != nil:
			return nil, err
		case why != "":
			p.reporter.log(o.ID() + " stays: " + why)
			occupied = append(occupied, o)
		default:
			empty = append(empty, o)
		}
	}
	return occupied, p.removeAll(ctx, remover, empty)
}

// removeAll deletes objects; what went before a fault is gone when it is tried again.
func (p *pruner) removeAll(ctx context.Context, remover *removal.Remover, objects []removal.Object) error {
	_, err := repeated(ctx, p.session, func() (struct{}, error) { return struct{}{}, remover.Remove(ctx, objects) })
	return err
}

// occupied says what is in a namespace, or is of a definition's kind; "" for nothing.
func (p *pruner) occupied(ctx context.Context, o removal.Object) (string, error) {
	contents := func() ([]removal.Object, error) { return removal.Contents(ctx, p.session, o.GetName()) }
	if kinds.IsDefinition(o.Unstructured) {
		contents = func() ([]removal.Object, error) { return removal.Instances(ctx, p.session, o.Unstructured) }
	} else if o.GetName() == p.set.Namespace {
		return "the parent of the apply set is in it", nil
	}
	left, err := repeated(ctx, p.session, contents)
	if err != nil || len(left) == 0 {
		return "", err
	}
	more := ""
	if len(left) > 1 {
		more = fmt.Sprintf(" and %d more", len(left)-1)
	}
	return left[0].ID() + more + " would be deleted with it", nil
}
