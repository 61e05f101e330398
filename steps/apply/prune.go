package apply

import (
	"cmp"
	"context"
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

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/applyset"
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
	// only when something would be deleted.
	Places func(context.Context) (map[Place]string, error)
}

// prunes is what an attempt knows of its apply set; only its own goroutine uses it.
type prunes struct {
	parents dynamic.ResourceInterface
	// wanted is what the parent has to name while the step works.
	wanted applyset.Content
	// owed says that the parent is to be written once its namespace is there.
	owed bool
	// pruned is how many members were deleted.
	pruned int
}

// openSet reads the parent of the step's set, and names in it, before any object is
// sent, where members will be: whatever happens then, the next run finds them.
func (r *run) openSet(ctx context.Context) error {
	p := &r.prunes
	there, err := r.readSet(ctx)
	if err != nil {
		return err
	}
	known := p.wanted
	p.wanted = known.With(r.content())
	if there && p.wanted.Equal(known) {
		return nil
	}
	err = r.writeSet(ctx, p.wanted)
	if apierrors.IsNotFound(err) && slices.ContainsFunc(r.items, func(it *item) bool {
		return it.Kind() == namespaceKind && it.GetName() == r.set.Namespace
	}) {
		p.owed = true
		return nil
	}
	return r.explainSet(ctx, "patch", err)
}

// readSet reads what the parent names, if it is there.
func (r *run) readSet(ctx context.Context) (there bool, err error) {
	p := &r.prunes
	p.parents = r.session.Dynamic.Resource(secrets).Namespace(r.set.Namespace)
	p.wanted = applyset.NewContent()
	parent, err := repeated(ctx, r, func() (*unstructured.Unstructured, error) {
		return p.parents.Get(ctx, r.set.Name, metav1.GetOptions{})
	})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, r.explainSet(ctx, "get", err)
	}
	p.wanted, err = r.set.Read(parent)
	return true, err
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// content is where the objects of the step are.
func (r *run) content() applyset.Content {
	c := applyset.NewContent()
	c.Namespaces[r.set.Namespace] = true
	for _, m := range r.manifests {
		c.Kinds[m.Kind()] = true
		// Of a kind that the step itself brings it may not be known yet whether it has
		// namespaces: one too many does no harm.
		if r.namespaced(m.Kind()) {
			c.Namespaces[cmp.Or(m.GetNamespace(), r.namespace)] = true
		}
	}
	return c
}

func (r *run) namespaced(gk schema.GroupKind) bool {
	for _, it := range r.items {
		if it.Kind() == gk {
			return it.GetNamespace() != ""
		}
	}
	return true
}

func (r *run) writeSet(ctx context.Context, c applyset.Content) error {
	_, err := repeated(ctx, r, func() (*unstructured.Unstructured, error) {
		return r.prunes.parents.Apply(ctx, r.set.Name, r.set.Parent(c), metav1.ApplyOptions{FieldManager: applyset.FieldManager, Force: true})
	})
	return err
}

// namespaceMade writes the parent if that had to wait for the step's namespaces.
func (r *run) namespaceMade(ctx context.Context) error {
	if !r.prunes.owed {
		return nil
	}
	r.prunes.owed = false
	return r.explainSet(ctx, "patch", r.writeSet(ctx, r.prunes.wanted))
}

func (r *run) explainSet(ctx context.Context, verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	err = kubeerr.Explain(err, kubeerr.Op{Verb: verb, Resource: secrets.GroupResource(), Namespace: r.set.Namespace})
	return kubeerr.Reword(fmt.Sprintf("the parent of the apply set, Secret %s/%s: %v", r.set.Namespace, r.set.Name, err), err)
}

// stranger says whether a live object is a member of a set that is not the plan's.
func (r *run) stranger(it *item) error {
	if !r.spec.Prune || it.before == nil || r.spec.ForceConflicts {
		return nil
	}
	id := it.before.GetLabels()[applyset.PartOf]
	if id == "" || id == r.set.ID() || r.neighbours.Sets[id] {
		return nil
	}
	return runner.WithHint(runner.Permanent(fmt.Errorf("is a member of another apply set, %s", id)),
		"take it over with force_conflicts: true, or leave it to whoever applies that set")
}

// prune deletes the members that the step's manifests no longer have, and then names
// in the parent where members still are.
func (r *run) prune(ctx context.Context) error {
	applied := map[types.UID]bool{}
	for _, it := range r.items {
		applied[it.answer.GetUID()] = true
	}
	going, kept, err := r.toPrune(ctx, func(o removal.Object) bool { return applied[o.GetUID()] })
	if err != nil {
		return err
	}
	for _, k := range kept {
		r.log(k.ID() + " stays: " + k.Why)
	}
	occupied, err := r.remove(ctx, going)
	if err != nil {
		return err
	}
	r.prunes.pruned = len(going) - len(occupied)
	left := r.content()
	for _, o := range append(kept, occupied...) { // members still, until another step takes them
		left.Kinds[o.GroupVersionKind().GroupKind()] = true
		if o.GetNamespace() != "" {
			left.Namespaces[o.GetNamespace()] = true
		}
	}
	if left.Equal(r.prunes.wanted) {
		return nil
	}
	return r.explainSet(ctx, "patch", r.writeSet(ctx, left))
}

// members are the objects of the set that the step does not apply.
func (r *run) members(ctx context.Context, applied func(removal.Object) bool) ([]removal.Object, error) {
	var (
		mu  sync.Mutex
		all []removal.Object
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for gk := range r.prunes.wanted.Kinds {
		m, err := repeated(ctx, r, func() (*meta.RESTMapping, error) { return removal.Mapping(ctx, r.session, gk.WithVersion("")) })
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue // its members are gone with their kind
		}
		namespaces := []string{""}
		if m.Scope.Name() == "namespace" {
			namespaces = slices.Collect(maps.Keys(r.prunes.wanted.Namespaces))
		}
		for _, namespace := range namespaces {
			group.Go(func() error {
				found, err := repeated(ctx, r, func() ([]removal.Object, error) {
					return removal.List(ctx, r.session, m, namespace, applyset.PartOf+"="+r.set.ID())
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
func (r *run) toPrune(ctx context.Context, applied func(removal.Object) bool) (going, kept []removal.Object, err error) {
	members, err := r.members(ctx, applied)
	if err != nil || len(members) == 0 {
		return nil, nil, err
	}
	elsewhere, err := r.neighbours.Places(ctx)
	if err != nil {
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
func (r *run) remove(ctx context.Context, going []removal.Object) (occupied []removal.Object, err error) {
	if len(going) == 0 {
		return nil, nil
	}
	var names []string
	for _, o := range going {
		names = append(names, o.ID())
	}
	r.log("pruning what the manifests no longer have: " + strings.Join(names, ", "))
	remover := &removal.Remover{Session: r.session, Reporter: r.reporter, Total: len(going)}
	isHolder := func(o removal.Object) bool {
		return o.GroupVersionKind().GroupKind() == namespaceKind || kinds.IsDefinition(o.Unstructured)
	}
	if err := r.removeAll(ctx, remover, slices.DeleteFunc(slices.Clone(going), isHolder)); err != nil {
		return nil, err
	}
	var empty []removal.Object
	for _, o := range going {
		if !isHolder(o) {
			continue
		}
		why, err := r.occupied(ctx, o)
		switch {
		case err != nil:
			return nil, err
		case why != "":
			r.log(o.ID() + " stays: " + why)
			occupied = append(occupied, o)
		default:
			empty = append(empty, o)
		}
	}
	return occupied, r.removeAll(ctx, remover, empty)
}

// removeAll deletes objects; what went before a fault is gone when it is tried again.
func (r *run) removeAll(ctx context.Context, remover *removal.Remover, objects []removal.Object) error {
	_, err := repeated(ctx, r, func() (struct{}, error) { return struct{}{}, remover.Remove(ctx, objects) })
	return err
}

// occupied says what is in a namespace, or is of a definition's kind; "" for nothing.
func (r *run) occupied(ctx context.Context, o removal.Object) (string, error) {
	contents := func() ([]removal.Object, error) { return removal.Contents(ctx, r.session, o.GetName()) }
	if kinds.IsDefinition(o.Unstructured) {
		contents = func() ([]removal.Object, error) { return removal.Instances(ctx, r.session, o.Unstructured) }
	} else if o.GetName() == r.set.Namespace {
		return "the parent of the apply set is in it", nil
	}
	left, err := repeated(ctx, r, contents)
	if err != nil || len(left) == 0 {
		return "", err
	}
	more := ""
	if len(left) > 1 {
		more = fmt.Sprintf(" and %d more", len(left)-1)
	}
	return left[0].ID() + more + " would be deleted with it", nil
}
