package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan/finding"
)

// room looks whether namespaces have room for what the steps make, and admit their pods.
func (o *one) room(ctx context.Context) {
	made, counted := map[string][]write{}, map[string]bool{} // by namespace, and by object
	for _, s := range o.steps {
		if s.Apply == nil && s.Helm == nil {
			continue
		}
		for _, u := range s.bare() {
			w := o.write(s, u, nil)
			if id := nameOf(w.object); w.create.Namespace != "" && !counted[id] {
				counted[id] = true // others may send it too
				made[w.create.Namespace] = append(made[w.create.Namespace], w)
			}
		}
	}
	var group errgroup.Group
	group.SetLimit(inFlight)
	labels := o.labels(ctx, slices.Concat(slices.Collect(maps.Values(made))...))
	for namespace, writes := range made {
		group.Go(func() error {
			level, _ := labels(namespace)
			o.security(namespace, level[enforceLabel], writes)
			quotas, err := o.session.Clientset.CoreV1().ResourceQuotas(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				if ctx.Err() != nil {
					o.miss(ctx, "whether quotas have room")
				}
				return nil // who may not read quotas may have to do without
			}
			for i := range quotas.Items {
				o.quota(ctx, &quotas.Items[i], writes)
			}
			return nil
		})
	}
	_ = group.Wait()
}

// quota looks whether a quota has room for what is made in its namespace. One that counts
// some pods only is left out.
func (o *one) quota(ctx context.Context, q *corev1.ResourceQuota, writes []write) {
	if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		hard, used := q.Status.Hard[name], q.Status.Used[name]
		all := func(write) bool { return true }
		if asked, _ := sum(string(name), writes, all); !exceeds(used, asked, hard) {
			continue // also if all of it is new
		}
		asked, first := sum(string(name), writes, func(w write) bool { return !o.exists(ctx, w.object) })
		if first == nil || !exceeds(used, asked, hard) {
			continue
		}
		f := Find(Quota, first.Step, "raise the quota, or make room", "", "name")
		f.Object = "ResourceQuota/" + q.Namespace + "/" + q.Name
		if o.makesRoom(q) {
			f.Severity = finding.Warning
		}
		f.Message = fmt.Sprintf("the quota %s of namespace %s has no room: %s is at %s of %s, and %s more is wanted",
			q.Name, q.Namespace, name, used.String(), hard.String(), asked.String())
		f.Evidence = []finding.Evidence{
			{Object: f.Object, Field: "status.hard." + string(name), Value: hard.String()},
			{Object: f.Object, Field: "status.used." + string(name), Value: used.String()},
		}
		o.find(f)
	}
}

// makesRoom reports whether the plan may make room in a quota: it deletes something, or
// has the quota itself.
func (o *one) makesRoom(q *corev1.ResourceQuota) bool {
	return slices.ContainsFunc(o.steps, func(k *known) bool { return k.Delete != nil }) ||
		slices.ContainsFunc(o.kinds.objects, func(u *unstructured.Unstructured) bool {
			return u.GetKind() == "ResourceQuota" && u.GetNamespace() == q.Namespace && u.GetName() == q.Name
		})
}

// sum is what objects take together of a quota's resource, and the step of the first one.
func sum(name string, writes []write, counts func(write) bool) (total resource.Quantity, first *known) {
	for _, w := range writes {
		if n := charge(name, w.create.Resource.GroupResource().String(), w.object); !n.IsZero() && counts(w) {
			total.Add(n)
			first = cmp.Or(first, w.step)
		}
	}
	return total, first
}

// exceeds reports whether more is used than there may be, with what is wanted besides.
func exceeds(used, wanted, hard resource.Quantity) bool {
	total := used.DeepCopy()
	total.Add(wanted)
	return !wanted.IsZero() && total.Cmp(hard) > 0
}

// charge is what an object takes of a quota's resource.
func charge(name, resourceName string, u *unstructured.Unstructured) resource.Quantity {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	counted, isCount := strings.CutPrefix(name, "count/")
	pod := podOf(u)
	switch {
	case isCount && counted == resourceName, !strings.Contains(resourceName, ".") && name == resourceName && name != "pods":
		return one
	case pod == nil:
		return resource.Quantity{}
	case name == "pods", name == "count/pods":
		return *resource.NewQuantity(pod.replicas, resource.DecimalSI)
	}
	kind, of, found := strings.Cut(name, ".")
	if !found {
		kind, of = "requests", name
	}
	sum := resource.Quantity{}
	for _, c := range pod.template.Spec.Containers {
		list := c.Resources.Requests
		if kind == "limits" {
			list = c.Resources.Limits
		} else if _, has := list[corev1.ResourceName(of)]; !has {
			list = c.Resources.Limits // which requests are set to
		}
		sum.Add(list[corev1.ResourceName(of)])
	}
	total := resource.Quantity{}
	for range min(pod.replicas, 1000) {
		total.Add(sum)
	}
	return total
}
