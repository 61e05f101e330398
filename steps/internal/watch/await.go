package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// Awaited is a kind that is not served and may come yet.
type Awaited struct {
	schema.GroupVersionKind
	kinds.Prospect
}

// recheck is how often discovery is asked for a kind that no
// CustomResourceDefinition brings: other API services have no watch.
const recheck = 5 * time.Second

var definitionsResource = kinds.Definitions.GroupVersion().WithResource("customresourcedefinitions")

// Missing finds out which of the kinds are not served and may come yet. The
// error is of the first one that can not come, or that cannot be looked for.
func Missing(ctx context.Context, s *cluster.Session, wanted ...schema.GroupVersionKind) ([]Awaited, error) {
	var missing []Awaited
	for _, kind := range wanted {
		_, err := s.Cluster.Mapping(ctx, kind)
		if !meta.IsNoMatchError(err) {
			if err != nil {
				return nil, err
			}
			continue
		}
		p, lookErr := prospect(ctx, s, kind)
		switch {
		case lookErr != nil:
			return nil, lookErr
		case p.Comes:
			missing = append(missing, Awaited{kind, p})
		case p.Why != "":
			return nil, runner.WithHint(runner.Permanent(kubeerr.Reword(err.Error()+": "+p.Why, err)), "see what the cluster serves with: kubectl api-resources --api-group="+kind.Group)
		default:
			return nil, err
		}
	}
	return missing, nil
}

// prospect asks the plan, and the cluster whether it has a definition that is
// just not served yet.
func prospect(ctx context.Context, s *cluster.Session, kind schema.GroupVersionKind) (kinds.Prospect, error) {
	var p kinds.Prospect
	if s.Expect != nil {
		p = s.Expect(ctx, kind)
	}
	if ctx.Err() != nil {
		return p, context.Cause(ctx)
	}
	if p.Comes {
		return p, nil
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	name := plural.GroupResource().String()
	if crd, err := s.Dynamic.Resource(definitionsResource).Get(ctx, name, metav1.GetOptions{}); err == nil && serves(crd, kind) {
		return kinds.Prospect{Comes: true, Definition: name, Why: "its CustomResourceDefinition exists"}, nil
	}
	return p, nil
}

// Await waits until the API server serves kinds, one after the other. It reports what
// is waited for, and again whenever that changes. The error is a
// *runner.TimeoutError when the step's time is over.
func Await(ctx context.Context, s *cluster.Session, r runner.Reporter, awaited ...Awaited) error {
	for _, a := range awaited {
		if err := await(ctx, s, r, a); err != nil {
			return err
		}
	}
	return nil
}

func await(ctx context.Context, s *cluster.Session, r runner.Reporter, a Awaited) error {
	what := fmt.Sprintf("kind %s (%s) to be served", a.Kind, a.GroupVersion())
	say := func(reading string) {
		report := runner.Report{Type: runner.TypeProgress, Message: "waits for " + what + ": " + a.Why}
		if a.Definition != "" {
			report.Object = kinds.Definitions.Kind + "/" + a.Definition
		}
		if reading != "" {
			report.Message += "; " + reading
		}
		r.Report(report)
	}
	say("")
	if a.Definition == "" {
		name, err := defined(ctx, s, a.GroupVersionKind, what)
		if err != nil || name == "" {
			return err
		}
		a.Definition = name
	}
	err := Until(ctx, s, Wait{
		Targets: []Target{{Kind: kinds.Definitions, Name: a.Definition}}, For: what,
		Judge: func(_ Target, crd *unstructured.Unstructured) Reading { return established(crd, a.Version) },
		Changed: func(c Change) {
			if c.Reading.State == Waiting {
				say(c.Target.String() + ": " + c.Reading.Reason)
			}
		},
	})
	if apierrors.IsForbidden(err) {
		_, err = defined(ctx, s, a.GroupVersionKind, what) // discovery is open to all
	}
	if err != nil {
		return err
	}
	return s.Cluster.Served(ctx, []schema.GroupVersionKind{a.GroupVersionKind})
}

// established judges whether a definition makes the API server serve a version.
func established(crd *unstructured.Unstructured, version string) Reading {
	switch {
	case crd == nil:
		return waiting("does not exist yet")
	case crd.GetDeletionTimestamp() != nil:
		return waiting("being deleted")
	}
	d := kinds.DefinitionOf(crd)
	if !slices.Contains(d.Versions, version) {
		return waiting(fmt.Sprintf("serves %s, not %s", strings.Join(d.Versions, ", "), version))
	}
	reason := ""
	for _, c := range conditions(crd) {
		switch {
		case c.kind == "Established" && c.status == "True":
			return reached("established")
		case c.kind == "NamesAccepted" && c.status == "False", c.kind == "Established" && reason == "":
			reason = ": " + c.String()
		}
	}
	return waiting("not established" + reason)
}

// serves reports whether a definition is of the kind, and means to serve its version.
func serves(crd *unstructured.Unstructured, kind schema.GroupVersionKind) bool {
	return slices.Contains(kinds.DefinitionOf(crd).Kinds(), kind)
}

// defined waits until the cluster has a definition of a kind, and gives its
// name; it is "" when the kind is served already. Changes of definitions are
// watched by their metadata: all of them in full are tens of megabytes.
func defined(ctx context.Context, s *cluster.Session, kind schema.GroupVersionKind, what string) (string, error) {
	client, err := metadata.NewForConfig(s.Config)
	if err != nil {
		return "", fmt.Errorf("making the metadata client: %w", err)
	}
	watching, stop := context.WithCancelCause(ctx)
	names := make(chan string) // follow sends until watching ends; never closed
	var following sync.WaitGroup
	defer following.Wait()
	defer stop(nil)
	following.Go(func() { follow(watching, client.Resource(definitionsResource), kind.Group, names) })
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	last := ""
	for {
		_, err := s.Cluster.Mapping(ctx, kind)
		switch {
		case err == nil:
			return "", nil
		case meta.IsNoMatchError(err):
			last = "the cluster has no CustomResourceDefinition of it"
		case ctx.Err() == nil:
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return "", undefined(context.Cause(ctx), what, last)
		case <-tick.C:
		case name := <-names:
			if name == "" {
				continue // ask discovery
			}
			crd, err := s.Dynamic.Resource(definitionsResource).Get(ctx, name, metav1.GetOptions{})
			if err == nil && serves(crd, kind) {
				return name, nil
			}
		}
	}
}

// undefined is why the wait for a definition ended with its context.
func undefined(cause error, what, last string) error {
	timeout := (*runner.TimeoutError)(nil)
	if !errors.As(cause, &timeout) {
		return cause
	}
	return runner.WithHint(
		&runner.TimeoutError{After: timeout.After, For: what, Last: last, Cause: cause},
		"is the kind spelled right, and does the program run that defines it? a step that installs it belongs in needs",
	)
}

// follow sends the names of a group's definitions when these are added or
// changed, until ctx ends. Where they may not be watched it sends "" now and then.
func follow(ctx context.Context, client metadata.ResourceInterface, group string, names chan<- string) {
	send := func(name string) {
		select {
		case names <- name:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		w, err := client.Watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(watchFor / time.Second))})
		switch {
		case apierrors.IsForbidden(err):
			send("")
		case err == nil:
			for event := range w.ResultChan() { // ends with ctx too
				object, err := meta.Accessor(event.Object)
				if err == nil && event.Type != watch.Deleted && strings.HasSuffix(object.GetName(), "."+group) {
					send(object.GetName())
				}
			}
			w.Stop()
		}
		if Pause(ctx, pollEvery) != nil {
			return
		}
	}
}
