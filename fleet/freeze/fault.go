package freeze

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/runner"
)

// mostNamed is how many clusters a message names.
const mostNamed = 10

// GroupError says what is wrong with some clusters, of all of them the same.
type GroupError struct {
	Cause fleet.Cause
	// Clusters are their names.
	Clusters []string
	// First is what is wrong with the first of them.
	First error
}

func (e *GroupError) Error() string {
	if len(e.Clusters) == 1 {
		return fmt.Sprintf("cluster %s: %s", e.Clusters[0], textOf(e.First))
	}
	return fmt.Sprintf("%d clusters: %s: %s", len(e.Clusters), e.Cause.Text, some(e.Clusters))
}

// Hint implements the interface that runner.HintOf looks for.
func (e *GroupError) Hint() string {
	if faults, ok := errors.AsType[document.Diagnostics](e.First); ok {
		return faults[0].Hint
	}
	return runner.HintOf(e.First)
}

// Usage tells the command line whether the user's input is at fault.
func (e *GroupError) Usage() bool { return e.Cause.Class == fleet.BadPlan }

// textOf is an error on one line: of the faults of a file the first ones.
func textOf(err error) string {
	faults, ok := errors.AsType[document.Diagnostics](err)
	if !ok {
		return strings.Join(strings.Fields(err.Error()), " ")
	}
	var texts []string
	for i, d := range faults {
		if i == 3 {
			texts = append(texts, fmt.Sprintf("and %d more faults", len(faults)-i))
			break
		}
		text := d.Message
		if d.File != "" {
			text = d.Pos.String() + ": " + text
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// Groups gather faults of clusters by their cause. The zero value is ready.
type Groups struct{ all []*GroupError }

// Add takes in a fault of a cluster; nil is none.
func (g *Groups) Add(class fleet.Class, c fleet.Cluster, err error) {
	if err == nil {
		return
	}
	_, name, _ := strings.Cut(c.Name, "/")
	cause := fleet.NewCause(class, "", textOf(err), c.Name, name, c.Namespace, c.Server)
	for _, known := range g.all {
		if known.Cause == *cause {
			known.Clusters = append(known.Clusters, c.Name)
			return
		}
	}
	g.all = append(g.all, &GroupError{*cause, []string{c.Name}, err})
}

// All are the groups, the largest first, with their clusters sorted.
func (g *Groups) All() []*GroupError {
	for _, e := range g.all {
		slices.Sort(e.Clusters)
	}
	slices.SortStableFunc(g.all, func(a, b *GroupError) int { return len(b.Clusters) - len(a.Clusters) })
	return g.all
}

// Err joins the groups; nil when there is none.
func (g *Groups) Err() error {
	var errs []error
	for _, e := range g.All() {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// some lists names, not too many of them.
func some(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		return strings.Join(names[:mostNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
