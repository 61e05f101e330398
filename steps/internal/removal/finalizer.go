package removal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// served leaves out the finalizers that Kubernetes itself takes away.
func served(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		domain, _, _ := strings.Cut(f, "/")
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents ||
			domain == "kubernetes" || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || domain == "batch.kubernetes.io" ||
			strings.HasSuffix(f, ".apiextensions.k8s.io")
	})
}

// workload is what runs a program in the cluster.
type workload struct {
	kind, namespace, name string
	release               string // namespace/name of the release that it is of; may be empty
	programs              []string
	replicas, ready       int32
}

func (w workload) String() string { return w.kind + " " + w.namespace + "/" + w.name }

type workloads []workload

// readWorkloads reads those of the cluster. It fails if it may not read some of them.
func (b *blocks) readWorkloads(ctx context.Context) (workloads, error) {
	if b.controllers != nil {
		return b.controllers, nil
	}
	all := workloads{}
	apps := b.Session.Clientset.AppsV1()
	deployments, err := apps.Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, d := range deployments.Items {
		all = append(all, workloadOf("Deployment", d.ObjectMeta, d.Spec.Template, ptr.Deref(d.Spec.Replicas, 1), d.Status.ReadyReplicas))
	}
	sets, err := apps.StatefulSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range sets.Items {
		all = append(all, workloadOf("StatefulSet", s.ObjectMeta, s.Spec.Template, ptr.Deref(s.Spec.Replicas, 1), s.Status.ReadyReplicas))
	}
	daemons, err := apps.DaemonSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, d := range daemons.Items {
		all = append(all, workloadOf("DaemonSet", d.ObjectMeta, d.Spec.Template, d.Status.DesiredNumberScheduled, d.Status.NumberReady))
	}
	b.controllers = all
	return all, nil
}

func workloadOf(kind string, m metav1.ObjectMeta, pod corev1.PodTemplateSpec, replicas, ready int32) workload {
	w := workload{kind: kind, namespace: m.Namespace, name: m.Name, release: ReleaseOf(&m), replicas: replicas, ready: ready}
	w.programs = append(w.programs, m.Name)
	for _, c := range pod.Spec.Containers {
		image, _, _ := strings.Cut(path.Base(c.Image), "@")
		image, _, _ = strings.Cut(image, ":")
		w.programs = append(w.programs, c.Name, image)
		if len(c.Command) > 0 {
			w.programs = append(w.programs, path.Base(c.Command[0]))
		}
	}
	return w
}

// ReleaseOf is namespace/name of the release of Helm that an object says it is of; ""
// for none.
func ReleaseOf(o metav1.Object) string {
	name, namespace := o.GetAnnotations()["meta.helm.sh/release-name"], o.GetAnnotations()["meta.helm.sh/release-namespace"]
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}

// controllersOf are the workloads that serve a finalizer as far as can be told: those
// of the release that the object's definition is of, else those that run the program
// which put the finalizer there. program is that one's name; "" when it is not known, or
// when many have it.
func (b *blocks) controllersOf(ctx context.Context, o Object, finalizer string) (found workloads, program string, err error) {
	if program = putBy(o.GetManagedFields(), finalizer); IsCommon(program) {
		program = ""
	}
	all, err := b.readWorkloads(ctx)
	if err != nil {
		return nil, program, err
	}
	release, err := b.definer(ctx, o)
	if err != nil {
		return nil, program, err
	}
	if release != "" {
		for _, w := range all {
			if w.release == release {
				found = append(found, w)
			}
		}
	}
	if len(found) > 0 || program == "" {
		return found, program, nil
	}
	for _, w := range all {
		if slices.Contains(w.programs, program) {
			found = append(found, w)
		}
	}
	return found, program, nil
}

// definer is the release that brought the definition of an object's kind; "" when none
// did.
func (b *blocks) definer(ctx context.Context, o Object) (string, error) {
	if !kinds.Custom(o.Mapping.Resource.Group) {
		return "", nil
	}
	m, err := Mapping(ctx, b.Session, kinds.Definitions)
	if err != nil || m == nil {
		return "", err
	}
	crd, err := get(ctx, b.Session, m, "", o.Mapping.Resource.GroupResource().String())
	if err != nil || crd == nil {
		return "", err
	}
	return ReleaseOf(crd), nil
}

// putBy is the manager that put a finalizer on an object; "" when it is not known, or
// when it came with the object's manifest.
func putBy(managed []metav1.ManagedFieldsEntry, finalizer string) string {
	key := "v:" + string(mustJSON(finalizer))
	for _, m := range managed {
		var fields struct {
			Metadata struct {
				Finalizers map[string]any `json:"f:finalizers"`
			} `json:"f:metadata"`
		}
		if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, put := fields.Metadata.Finalizers[key]; put && !IsTool(m.Manager) {
			return m.Manager
		}
	}
	return ""
}

func mustJSON(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // of a text
	}
	return b
}

// tools are the beginnings of the managers' names under which people and what works
// for them write objects, rather than controllers of the cluster.
var tools = []string{
	"kubectl", "helm", "kplan", "argocd", "kustomize-controller", "flux", "terraform", "Terraform", "HashiCorp", "pulumi", "Pulumi", "k9s",
	"Lens", "lens", "Mozilla", "OpenAPI-Generator", "ansible", "kapp", "kluctl", "timoni", "rancher", "dashboard", "headlamp", "curl", "python-", "node-fetch", "Go-http-client",
}

// IsTool reports whether a field manager is what people use, rather than a
// controller.
func IsTool(manager string) bool {
	return slices.ContainsFunc(tools, func(t string) bool { return strings.HasPrefix(manager, t) })
}

// holder says in words who has to take a finalizer away.
func (b *blocks) holder(ctx context.Context, o Object, finalizer string) string {
	found, program, err := b.controllersOf(ctx, o, finalizer)
	switch {
	case err != nil:
		return cmp.Or(program, "its controller")
	case len(found) == 0 && program == "":
		return "its controller, and nobody knows which that is"
	case len(found) == 0:
		return program + ", and no workload of the cluster runs that"
	}
	w := found[0]
	return fmt.Sprintf("%s (%d of %d ready)", w, w.ready, w.replicas)
}

// hopeless are the finalizers that nobody is left to take away, and why. A finalizer of
// which that cannot be told is none.
func (b *blocks) hopeless(ctx context.Context, o Object, finalizers []string) (gone []string, why string) {
	var reasons []string
	for _, f := range finalizers {
		found, program, err := b.controllersOf(ctx, o, f)
		switch {
		case err != nil:
		case slices.ContainsFunc(found, func(w workload) bool { return w.replicas > 0 }):
		case len(found) > 0:
			gone = append(gone, f)
			reasons = append(reasons, fmt.Sprintf("finalizer %s is for %s to take away, which is scaled to 0", f, found[0]))
		case program != "" && time.Since(o.GetDeletionTimestamp().Time) > benefit:
			gone = append(gone, f)
			reasons = append(reasons, fmt.Sprintf("finalizer %s stays: %s, which put it there, is run by no workload of the cluster", f, program))
		}
	}
	return gone, strings.Join(reasons, "; ")
}

// forceHint is what to do about finalizers that nobody takes away.
func forceHint(o Object, gone []string) string {
	patch := `{"metadata":{"finalizers":` + rest(o, gone) + `}}`
	cmd := fmt.Sprintf("kubectl patch %s %s --type merge -p '%s'", o.Mapping.Resource.GroupResource(), o.GetName(), patch)
	if ns := o.GetNamespace(); ns != "" {
		cmd += " -n " + ns
	}
	return "start its controller again, so that it cleans up; or give that up: kplan down --force-finalizers, or " + cmd
}

// rest are an object's finalizers without some, as JSON.
func rest(o Object, gone []string) string {
	left := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return slices.Contains(gone, f) })
	if len(left) == 0 {
		return "null"
	}
	b, err := json.Marshal(left)
	if err != nil {
		panic(err) // of texts
	}
	return string(b)
}

// force takes finalizers away.
func (b *blocks) force(ctx context.Context, o Object, gone []string, why string) error {
	patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"finalizers":%s}}`, o.GetResourceVersion(), rest(o, gone))
	_, err := b.Session.Resource(o.Mapping, o.GetNamespace()).
		Patch(b.notified(ctx), o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kplan"})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is looked at again
		return nil
	}
	if err != nil {
		return &BlockedError{Object: o.ID(), Reason: fmt.Sprintf("its finalizers cannot be taken away: %v", err), Remedy: runner.HintOf(err)}
	}
	b.Reporter.Report(runner.Report{Type: runner.TypeLog, Message: o.ID() + ": took the finalizers away by force: " + why})
	return nil
}

// withinOf are the objects that an object waits for: itself, what is left in a
// namespace, and what is left of a definition's kind.
func (b *blocks) withinOf(ctx context.Context, u *unstructured.Unstructured) []Object {
	gk := u.GroupVersionKind().GroupKind()
	var inside []Object
	switch phaseOf(gk) {
	case namespaces:
		inside, _ = Contents(ctx, b.Session, u.GetName())
	case definitions:
		inside, _ = Instances(ctx, b.Session, u)
	case custom, admission, work, ground, phases:
		o := b.objects[watchID(u)]
		o.Unstructured = u
		return []Object{o}
	}
	return slices.DeleteFunc(inside, func(o Object) bool { return o.GetDeletionTimestamp() == nil })
}
