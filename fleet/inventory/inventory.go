// Package inventory finds the clusters of a fleet: by objects of Cluster API, k0rdent,
// Sveltos and Argo CD in management clusters, by the contexts of a kubeconfig, and by a
// list. It reads their kubeconfigs each time that somebody asks for one.
//
// It writes nothing, asks no cluster of the fleet itself, and does not know which of them
// a plan runs on: package freeze decides that.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/fleet"
)

// The kinds of sources, as in fleet.Source.
const (
	KindCAPI     = "capi"
	KindK0rdent  = "k0rdent"
	KindSveltos  = "sveltos"
	KindArgoCD   = "argocd"
	KindContexts = "contexts"
	KindList     = "list"
)

// Found is what one entry of a fleet's inventory has.
type Found struct {
	// Clusters are sorted by name. They have neither waves nor values.
	Clusters []fleet.Cluster
	// Refused are clusters that kplan cannot reach by what stands for them.
	Refused []Refused
	// Notes are what was left out.
	Notes []Note
}

// Refused is a cluster that cannot be reached by what stands for it. Who selects it has a
// fault; who does not need not care.
type Refused struct {
	fleet.Cluster
	// Err says why, and has a hint.
	Err error
}

// Note is a cluster that was left out, and why.
type Note struct {
	// Cluster is its name, and Source what stands for it.
	Cluster string       `json:"cluster"`
	Source  fleet.Source `json:"source"`
	// Why is a part of a sentence: it is being deleted.
	Why string `json:"why"`
}

func (n Note) String() string { return fmt.Sprintf("cluster %s is left out: %s", n.Cluster, n.Why) }

// Find finds the clusters of all entries of an inventory, side by side; what is found is in
// their order. The error joins what went wrong with each entry.
func (m *Management) Find(ctx context.Context, entries []fleet.Inventory) ([]Found, error) {
	var (
		found = make([]Found, len(entries))
		errs  = make([]error, len(entries))
		group errgroup.Group
	)
	for i, e := range entries {
		group.Go(func() error { // ends with its requests, which end with ctx
			found[i], errs[i] = m.entry(ctx, e)
			return nil
		})
	}
	_ = group.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i := range found {
		slices.SortFunc(found[i].Clusters, func(a, b fleet.Cluster) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(found[i].Refused, func(a, b Refused) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(found[i].Notes, func(a, b Note) int { return strings.Compare(a.Cluster, b.Cluster) })
	}
	return found, errors.Join(distinct(errs)...)
}

// distinct leaves out errors that say what one before says: two entries may be of the same
// management cluster.
func distinct(errs []error) []error {
	var all []error
	for _, err := range errs {
		if err != nil && !slices.ContainsFunc(all, func(e error) bool { return e.Error() == err.Error() }) {
			all = append(all, err)
		}
	}
	return all
}

// entry finds the clusters of one entry.
func (m *Management) entry(ctx context.Context, e fleet.Inventory) (Found, error) {
	switch {
	case e.CAPI != nil:
		return m.objects(ctx, capi, *e.CAPI)
	case e.K0rdent != nil:
		return m.objects(ctx, k0rdent, *e.K0rdent)
	case e.Sveltos != nil:
		return m.objects(ctx, sveltos, *e.Sveltos)
	case e.ArgoCD != nil:
		return m.argocd(ctx, *e.ArgoCD)
	case e.Contexts != nil:
		return m.contexts(*e.Contexts)
	}
	return m.list(ctx, e.List)
}
