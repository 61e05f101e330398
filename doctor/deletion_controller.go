package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// blocked finds a webhook that has to answer before a finalizer is taken away, and that
// cannot be called.
func (c *Cluster) blocked(ctx context.Context, l leaving) (keeper, bool) {
	var u *unstructured.Unstructured
	for _, st := range c.webhooks(ctx) {
		conversion := st.Kind == webhook.Conversion
		missing, waits := st.Ladder.Missing()
		if !waits || st.Ladder.Callable() || !conversion && st.FailurePolicy != admissionv1.Fail {
			continue
		}
		if conversion && (st.Converts.Group != l.Group || st.Converts.Kind != l.kind) {
			continue
		}
		if !conversion {
			if u == nil {
				if u, _ = c.get(ctx, l.GroupVersionResource, l.Namespace, l.Name); u == nil {
					return keeper{}, false // it has gone, or may not be read
				}
			}
			if c.matcher(ctx).Match(ctx, st.Entry, match.Request{
				Operation: admissionv1.Update, Resource: l.GroupVersionResource, Kind: u.GroupVersionKind(),
				Namespace: l.Namespace, Name: l.Name, Object: u, OldObject: u,
			}).Outcome != match.Calls {
				continue
			}
		}
		source := st.Source()
		return keeper{
			why: fmt.Sprintf("nobody can take its finalizers away, since the %s cannot be called: %s", st.Entry, missing.Reason),
			hint: fmt.Sprintf("mend the webhook: kplan webhooks %s; or, if its operator has gone for good: kubectl delete %s %s",
				st.Configuration, strings.ToLower(source.Kind), source.Name),
			evidence: []finding.Evidence{{Object: missing.Source.String(), Field: string(missing.Rung), Value: missing.Reason}},
		}, true
	}
	return keeper{}, false
}

// matcher predicts which webhooks a request meets.
func (c *Cluster) matcher(ctx context.Context) *match.Matcher {
	return once(c, "matcher", func() *match.Matcher {
		labels := map[string]map[string]string{}
		for _, o := range c.meta(ctx, namespaceResource, false, "") {
			labels[o.Name] = o.Labels
		}
		resources := &match.Resources{}
		if err := resources.AddDiscovery(c.served(ctx).lists...); err != nil {
			c.miss("what the API server serves: " + err.Error())
		}
		return &match.Matcher{Cluster: match.Cluster{Resources: resources, Labels: func(namespace string) (map[string]string, bool) {
			set, known := labels[namespace]
			return set, known
		}}}
	})
}

// workload is what runs a program in the cluster.
type workload struct {
	webhook.Object
	release         string // namespace/name; "" of none
	programs        []string
	replicas, ready int32
}

// workloads are those of the whole cluster, wherever is looked. known is false when they
// may not be read.
func (c *Cluster) workloads(ctx context.Context) (found []workload, known bool) {
	type answer struct {
		found []workload
		known bool
	}
	a := once(c, "workloads", func() answer {
		deployments, err := c.readAll(ctx, deploymentResource, "", "", "")
		c.note(deploymentResource, err)
		sets, failed := c.readAll(ctx, statefulSetResource, "", "", "")
		c.note(statefulSetResource, failed)
		daemons, unread := c.readAll(ctx, daemonSetResource, "", "", "")
		c.note(daemonSetResource, unread)
		var a answer
		for _, d := range all[appsv1.Deployment](deployments) {
			a.found = append(a.found, workloadOf("Deployment", d.ObjectMeta, d.Spec.Template, d.Spec.Replicas, d.Status.ReadyReplicas))
		}
		for _, s := range all[appsv1.StatefulSet](sets) {
			a.found = append(a.found, workloadOf("StatefulSet", s.ObjectMeta, s.Spec.Template, s.Spec.Replicas, s.Status.ReadyReplicas))
		}
		for _, d := range all[appsv1.DaemonSet](daemons) {
			a.found = append(a.found, workloadOf("DaemonSet", d.ObjectMeta, d.Spec.Template, &d.Status.DesiredNumberScheduled, d.Status.NumberReady))
		}
		a.known = err == nil && failed == nil && unread == nil
		return a
	})
	return a.found, a.known
}

func workloadOf(kind string, m metav1.ObjectMeta, pod corev1.PodTemplateSpec, replicas *int32, ready int32) workload {
	w := workload{
		Object:  webhook.Object{Kind: kind, Namespace: m.Namespace, Name: m.Name},
		release: releaseOf(m.Annotations), programs: []string{m.Name}, replicas: ptr.Deref(replicas, 1), ready: ready,
	}
	for _, k := range pod.Spec.Containers {
		image, _, _ := strings.Cut(path.Base(k.Image), "@")
		image, _, _ = strings.Cut(image, ":")
		w.programs = append(w.programs, k.Name, image)
		if len(k.Command) > 0 {
			w.programs = append(w.programs, path.Base(k.Command[0]))
		}
	}
	return w
}

// releaseOf is namespace/name of the Helm release that annotations name; "" without.
func releaseOf(annotations map[string]string) string {
	if annotations["meta.helm.sh/release-name"] == "" {
		return ""
	}
	return annotations["meta.helm.sh/release-namespace"] + "/" + annotations["meta.helm.sh/release-name"]
}

// controller says whether the controller of a finalizer is alive: it is of the release
// that brought the definition of the object's kind, or runs the program that put the
// finalizer there.
func (c *Cluster) controller(ctx context.Context, l leaving, finalizer string) (keeper, bool) {
	k := keeper{
		why:      "nothing tells whose finalizer " + finalizer + " is",
		hint:     "find the controller of " + l.GroupResource().String() + ", and see its log",
		severity: finding.Warning, patience: leavingLate,
	}
	workloads, known := c.workloads(ctx)
	if !known {
		return k, true
	}
	program := putBy(l.ManagedFields, finalizer)
	release := c.definer(ctx, l)
	found := serving(workloads, release, program)
	switch {
	case len(found) > 0:
		return servedBy(l, finalizer, found), true
	case program != "":
		k.why = fmt.Sprintf("finalizer %s stays: no Deployment, StatefulSet or DaemonSet is named like %s, which put it there", finalizer, program)
	case release != "":
		k.why = fmt.Sprintf("finalizer %s stays: release %s, which brought the kind, has no workload", finalizer, release)
	default:
		return k, true
	}
	k.hint, k.severity = giveUp("install its controller again, so that it cleans up", l, finalizer), finding.Error
	k.evidence = []finding.Evidence{{Object: l.String(), Field: "metadata.managedFields", Value: "finalizer of " + program}}
	if program == "" {
		k.evidence = []finding.Evidence{{Object: object("CustomResourceDefinition", "", l.GroupResource().String()), Field: "metadata.annotations[meta.helm.sh/release-name]", Value: release}}
	}
	return k, true
}

// serving are the workloads of a release, of these those that run a program if there are
// some; or those of the cluster that run it.
func serving(workloads []workload, release, program string) []workload {
	var ofRelease, ofProgram, both []workload
	for _, w := range workloads {
		of, runs := release != "" && w.release == release, program != "" && slices.ContainsFunc(w.programs, func(p string) bool { return akin(p, program) })
		if of {
			ofRelease = append(ofRelease, w)
		}
		if runs {
			ofProgram = append(ofProgram, w)
		}
		if of && runs {
			both = append(both, w)
		}
	}
	switch {
	case len(both) > 0:
		return both
	case len(ofRelease) > 0:
		return ofRelease
	}
	return ofProgram
}

// akin reports whether two names are of one program: cert-manager-challenges is a part of
// cert-manager.
func akin(a, b string) bool {
	return !vague(a) && !vague(b) && (a == b || strings.HasPrefix(a, b+"-") || strings.HasPrefix(b, a+"-"))
}

// servedBy says how the workloads stand that are to take a finalizer away.
func servedBy(l leaving, finalizer string, found []workload) keeper {
	w := slices.MaxFunc(found, func(a, b workload) int { return int(a.ready) - int(b.ready) })
	k := keeper{
		severity: finding.Error,
		evidence: []finding.Evidence{{Object: w.String(), Field: "status.readyReplicas", Value: fmt.Sprintf("%d of %d", w.ready, w.replicas)}},
	}
	name := w.Kind + " " + w.Namespace + "/" + w.Name
	switch {
	case w.ready > 0:
		k.severity, k.patience = finding.Warning, leavingLate
		k.why = fmt.Sprintf("finalizer %s stays: %s, which is to take it away, runs and has not done so", finalizer, name)
		k.hint = fmt.Sprintf("see its log: kubectl logs -n %s %s/%s", w.Namespace, strings.ToLower(w.Kind), w.Name)
	case w.replicas == 0:
		k.why = fmt.Sprintf("finalizer %s stays: %s, which is to take it away, is scaled to 0", finalizer, name)
		k.hint = giveUp(fmt.Sprintf("start it: kubectl scale -n %s %s/%s --replicas 1", w.Namespace, strings.ToLower(w.Kind), w.Name), l, finalizer)
	default:
		k.why = fmt.Sprintf("finalizer %s stays: %s, which is to take it away, has no ready pod", finalizer, name)
		k.hint = giveUp("see why: "+describe(w.Kind, w.Namespace, w.Name), l, finalizer)
	}
	return k
}

// giveUp adds to a hint how an object goes without its controller.
func giveUp(hint string, l leaving, finalizer string) string {
	left := slices.DeleteFunc(slices.Clone(l.Finalizers), func(f string) bool { return f == finalizer })
	rest, err := json.Marshal(left)
	if err != nil || len(left) == 0 {
		rest = []byte("null")
	}
	namespace := ""
	if l.Namespace != "" {
		namespace = " -n " + l.Namespace
	}
	return fmt.Sprintf(`%s; or do without its cleaning up: kubectl patch %s%s %s --type merge -p '{"metadata":{"finalizers":%s}}'`,
		hint, l.GroupResource(), namespace, l.Name, rest)
}

// definer is the release that brought the definition of an object's kind; "" without.
func (c *Cluster) definer(ctx context.Context, l leaving) string {
	for _, o := range c.meta(ctx, definitionResource, false, "") {
		if o.Name == l.GroupResource().String() {
			return releaseOf(o.Annotations)
		}
	}
	return ""
}

// putBy is the program that put a finalizer on an object, as its field manager; "" when
// it is not known: people's tools and names that many programs have do not tell.
func putBy(managed []metav1.ManagedFieldsEntry, finalizer string) string {
	key, err := json.Marshal(finalizer)
	if err != nil {
		return ""
	}
	for _, m := range managed {
		var fields struct {
			Metadata struct {
				Finalizers map[string]any `json:"f:finalizers"`
			} `json:"f:metadata"`
		}
		if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, put := fields.Metadata.Finalizers["v:"+string(key)]; put && !vague(m.Manager) {
			return m.Manager
		}
	}
	return ""
}

// vague reports whether a field manager does not tell a program of the cluster.
func vague(manager string) bool {
	tools := []string{"kubectl", "helm", "kplan", "argocd", "kustomize-controller", "flux", "terraform", "HashiCorp", "pulumi", "k9s", "ansible", "kapp", "node-fetch", "Go-http-client", "python-"}
	common := []string{"", "manager", "controller", "controller-manager", "main", "app", "server", "unknown", "operator", "kube-controller-manager", "kube-apiserver"}
	return slices.Contains(common, manager) || slices.ContainsFunc(tools, func(t string) bool { return strings.HasPrefix(manager, t) })
}
