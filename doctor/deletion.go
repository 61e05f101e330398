package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/plan/finding"
)

const (
	// leavingSoon is how long a deletion may take that something is known to block.
	leavingSoon = time.Minute
	// leavingLate is how long one may take whose controller seems to work at it: what it
	// cleans up may be a load balancer, or a whole cluster.
	leavingLate = 5 * time.Minute
	// oneList bounds the list of one custom resource: its conversion webhook may hang.
	oneList = 5 * time.Second
)

var stuckDeletion = Check{
	Rule: finding.Rule{
		ID: "stuck-deletion", Severity: finding.Error,
		Summary: "An object is being deleted, and its finalizers keep it.",
		Explanation: "A finalizer is taken away by the controller that put it there, when it has cleaned up. That is an UPDATE, which a webhook " +
			"of failurePolicy Fail can block. Custom resources, their definitions and PersistentVolumeClaims are looked at.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var groups [][]leaving
		for _, l := range c.leaving(ctx) {
			i := slices.IndexFunc(groups, func(g []leaving) bool { return g[0].like(l) })
			if i < 0 {
				groups = append(groups, []leaving{l})
				continue
			}
			groups[i] = append(groups[i], l)
		}
		var mu sync.Mutex
		var found []finding.Finding
		each(groups, func(g []leaving) {
			f, bad := c.stuck(ctx, g[0])
			if !bad {
				return
			}
			if more := len(g) - 1; more > 0 {
				f.Message += fmt.Sprintf("; so it is with %d more of its kind", more)
			}
			mu.Lock()
			defer mu.Unlock()
			found = append(found, f)
		})
		return found
	},
}

// leaving is an object that is being deleted for a while.
type leaving struct {
	resource
	metav1.PartialObjectMetadata
	since time.Duration
}

func (l leaving) String() string { return object(l.kind, l.Namespace, l.Name) }

// like reports whether two objects wait for the same. Claims and definitions each have
// reasons of their own.
func (l leaving) like(o leaving) bool {
	return l.Group != "" && l.GroupVersionResource != definitionResource && l.resource == o.resource && slices.Equal(l.Finalizers, o.Finalizers) && l.Namespace == o.Namespace
}

// leaving lists the objects that are being deleted for a while, the longest first.
func (c *Cluster) leaving(ctx context.Context) []leaving {
	var mu sync.Mutex
	var found []leaving
	unread := map[string]string{}
	each(c.removable(ctx), func(r resource) {
		within, cancel := context.WithTimeoutCause(ctx, oneList, errors.New("no answer within "+oneList.String()))
		defer cancel()
		err := c.metaPages(within, r.GroupVersionResource, r.namespaced, "", func(page []metav1.PartialObjectMetadata) {
			mu.Lock()
			defer mu.Unlock()
			for _, o := range page {
				if o.DeletionTimestamp == nil || len(o.Finalizers) == 0 {
					continue
				}
				if since := c.Now.Sub(o.DeletionTimestamp.Time); since >= leavingSoon {
					found = append(found, leaving{r, o, since})
				}
			}
		})
		if err != nil && within.Err() != nil {
			err = context.Cause(within)
		}
		if err != nil && !apierrors.IsNotFound(err) { // its definition may have gone meanwhile
			mu.Lock()
			defer mu.Unlock()
			unread[r.GroupResource().String()] = err.Error()
		}
	})
	c.missMany(unread)
	slices.SortFunc(found, func(a, b leaving) int {
		return cmp.Or(cmp.Compare(b.since, a.since), cmp.Compare(a.String(), b.String()))
	})
	return found
}

// removable are the resources whose objects are looked at. The list of definitions is
// read as metadata alone: their schemas are most of what a cluster has.
func (c *Cluster) removable(ctx context.Context) []resource {
	all := []resource{
		{claimResource, "PersistentVolumeClaim", true},
		{definitionResource, "CustomResourceDefinition", false},
	}
	custom := map[string]bool{}
	for _, o := range c.meta(ctx, definitionResource, false, "") {
		custom[o.Name] = true
	}
	for _, r := range c.served(ctx).preferred {
		if custom[r.GroupResource().String()] {
			all = append(all, r)
		}
	}
	return all
}

// missMany notes what could not be read, a few texts for many resources.
func (c *Cluster) missMany(unread map[string]string) {
	const most = 3
	var names []string
	for name := range unread {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > most {
		c.miss(fmt.Sprintf("objects of %s: %s", several(names), unread[names[0]]))
		return
	}
	for _, name := range names {
		c.miss(name + ": " + unread[name])
	}
}

// stuck says what keeps an object.
func (c *Cluster) stuck(ctx context.Context, l leaving) (finding.Finding, bool) {
	f := finding.Finding{
		Object: l.String(),
		Evidence: []finding.Evidence{
			{Object: l.String(), Field: "metadata.deletionTimestamp", Value: l.DeletionTimestamp.UTC().Format(time.RFC3339)},
			{Object: l.String(), Field: "metadata.finalizers", Value: strings.Join(l.Finalizers, ", ")},
		},
	}
	k, bad := c.blocked(ctx, l)
	for _, name := range l.Finalizers {
		if bad {
			break
		}
		k, bad = c.keeper(ctx, l, name)
	}
	if !bad || l.since < k.patience {
		return f, false
	}
	f.Severity, f.Message, f.Hint = k.severity, "cannot be deleted: "+k.why, k.hint
	f.Evidence = append(f.Evidence, k.evidence...)
	return f, true
}

// keeper is what keeps an object that is being deleted.
type keeper struct {
	why, hint string
	evidence  []finding.Evidence
	severity  finding.Severity
	patience  time.Duration
}

// keeper says who is to take a finalizer away, and has not.
func (c *Cluster) keeper(ctx context.Context, l leaving, finalizer string) (keeper, bool) {
	switch finalizer {
	case metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents:
		return keeper{
			why:  "its dependents are deleted before it, and one of them is still there",
			hint: fmt.Sprintf("look for what it owns and is being deleted as well: kubectl get events -n %s", cmp.Or(l.Namespace, "default")), severity: finding.Warning, patience: leavingLate,
		}, true
	case "kubernetes.io/pvc-protection":
		return c.claimed(ctx, l)
	case "customresourcecleanup.apiextensions.k8s.io":
		return c.instances(ctx, l)
	}
	return c.controller(ctx, l, finalizer)
}

// claimed says which pods use a claim that is being deleted.
func (c *Cluster) claimed(ctx context.Context, l leaving) (keeper, bool) {
	var users []string
	for _, p := range all[corev1.Pod](c.selected(ctx, podResource, l.Namespace, "", "")) {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		// One that no node has does not count (kubernetes/kubernetes pkg/controller/volume/pvcprotection).
		if !ended && p.Spec.NodeName != "" && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == l.Name
		}) {
			users = append(users, p.Name)
		}
	}
	if len(users) == 0 {
		return keeper{}, false
	}
	k := keeper{
		why:  "a pod uses it: " + several(users),
		hint: fmt.Sprintf("end what runs the pod: kubectl get pod -n %s %s", l.Namespace, users[0]),
		evidence: []finding.Evidence{
			{Object: object("Pod", l.Namespace, users[0]), Field: "spec.volumes[].persistentVolumeClaim.claimName", Value: l.Name},
		},
		severity: finding.Warning, patience: leavingLate,
	}
	if len(users) > 1 {
		k.why = "pods use it: " + several(users)
	}
	return k, true
}

// instances says why the objects of a definition are still there.
func (c *Cluster) instances(ctx context.Context, l leaving) (keeper, bool) {
	u, _ := c.get(ctx, definitionResource, "", l.Name)
	if u == nil {
		return keeper{}, false
	}
	is := conditionOf(u, "Terminating")
	k := keeper{
		why:      "objects of its kind are still there",
		hint:     "see what keeps them: kubectl get -A " + l.Name + " -o yaml",
		severity: finding.Warning, patience: leavingLate,
	}
	if is.reason == "InstanceDeletionFailed" {
		k.why, k.severity, k.patience = joined(k.why, is.why()), finding.Error, leavingSoon
		k.evidence = []finding.Evidence{is.evidence(l.String())}
	}
	return k, true
}
