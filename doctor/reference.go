package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// youngPod is how long a pod may wait for what is about to be made.
const youngPod = 30 * time.Second

var missingReference = Check{
	Rule: finding.Rule{
		ID: "missing-reference", Severity: finding.Error,
		Summary: "Pods mount or read a Secret or ConfigMap that does not exist.",
		Explanation: "Their containers are not created before it exists. The kubelet tries again for ever, after up to 2 minutes each time. " +
			"Its maker is a Certificate, an ExternalSecret or a SealedSecret, where one names it.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		// A pod that lacks a Secret or ConfigMap is Pending from its start on. One that
		// lost it later runs until it is started anew.
		waiting := map[reference][]usage{}
		for _, p := range all[corev1.Pod](c.selected(ctx, podResource, "", "", "status.phase=Pending")) {
			if p.DeletionTimestamp != nil || c.Now.Sub(p.CreationTimestamp.Time) < youngPod {
				continue
			}
			for _, u := range usages(p) {
				waiting[u.of] = append(waiting[u.of], u)
			}
		}
		references := slices.SortedFunc(maps.Keys(waiting), func(a, b reference) int { return cmp.Compare(a.String(), b.String()) })
		each(references, func(r reference) { c.exists(ctx, r.resource(), r.namespace, r.name) })
		var found []finding.Finding
		for _, r := range references {
			if there, known := c.exists(ctx, r.resource(), r.namespace, r.name); known && !there {
				found = append(found, c.missing(ctx, r, waiting[r]))
			}
		}
		return found
	},
}

// reference is a Secret or ConfigMap that pods name.
type reference struct{ kind, namespace, name string }

func (r reference) String() string { return object(r.kind, r.namespace, r.name) }

func (r reference) resource() schema.GroupVersionResource {
	if r.kind == "Secret" {
		return secretResource
	}
	return configMapResource
}

// usage is how a pod names a Secret or ConfigMap that it cannot start without.
type usage struct {
	of         reference
	pod, field string
}

// usages are those of a pod. What is optional is left out, and so is a pull secret while
// the images come without it.
func usages(p *corev1.Pod) []usage {
	var found []usage
	add := func(optional *bool, kind, name, field string) {
		if name != "" && !ptr.Deref(optional, false) {
			found = append(found, usage{reference{kind, p.Namespace, name}, p.Name, field})
		}
	}
	for _, v := range p.Spec.Volumes {
		at := "spec.volumes[" + v.Name + "]"
		if s := v.Secret; s != nil {
			add(s.Optional, "Secret", s.SecretName, at+".secret")
		}
		if m := v.ConfigMap; m != nil {
			add(m.Optional, "ConfigMap", m.Name, at+".configMap")
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				add(s.Secret.Optional, "Secret", s.Secret.Name, at+".projected")
			}
			if s.ConfigMap != nil {
				add(s.ConfigMap.Optional, "ConfigMap", s.ConfigMap.Name, at+".projected")
			}
		}
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		at := "spec.containers[" + c.Name + "]"
		for _, e := range c.Env {
			if from := e.ValueFrom; from != nil && from.SecretKeyRef != nil {
				add(from.SecretKeyRef.Optional, "Secret", from.SecretKeyRef.Name, at+".env["+e.Name+"]")
			} else if from != nil && from.ConfigMapKeyRef != nil {
				add(from.ConfigMapKeyRef.Optional, "ConfigMap", from.ConfigMapKeyRef.Name, at+".env["+e.Name+"]")
			}
		}
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil {
				add(e.SecretRef.Optional, "Secret", e.SecretRef.Name, at+".envFrom")
			}
			if e.ConfigMapRef != nil {
				add(e.ConfigMapRef.Optional, "ConfigMap", e.ConfigMapRef.Name, at+".envFrom")
			}
		}
	}
	if unpulled(p) {
		for _, s := range p.Spec.ImagePullSecrets {
			add(nil, "Secret", s.Name, "spec.imagePullSecrets")
		}
	}
	return found
}

// unpulled reports whether an image of a pod cannot be pulled: the kubelet goes on
// without a pull secret that is missing, and public images need none.
func unpulled(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		fault := webhook.ImageFaultOf(s)
		return fault == webhook.ImageAbsent || fault == webhook.ImageRefused
	})
}

// missing tells of what does not exist, who waits for it and who is to make it.
func (c *Cluster) missing(ctx context.Context, r reference, by []usage) finding.Finding {
	var pods []string
	for _, u := range by {
		pods = append(pods, u.pod)
	}
	slices.Sort(pods)
	pods = slices.Compact(pods)
	waits := "pod " + pods[0] + " waits"
	if len(pods) > 1 {
		waits = "pods " + several(pods) + " wait"
	}
	f := finding.Finding{
		Object:  r.String(),
		Message: "does not exist, and " + waits + " for it",
		Hint:    fmt.Sprintf("create it, or correct %s of the pod", by[0].field),
		Evidence: []finding.Evidence{
			{Object: object("Pod", r.namespace, by[0].pod), Field: by[0].field, Value: r.name},
			{Object: r.String(), Field: "metadata", Value: "does not exist"},
		},
	}
	if m, ok := c.maker(ctx, r); ok {
		f.Message += "; " + m.text
		f.Evidence = append(f.Evidence, m.evidence)
		f.Hint = m.hint
	}
	return f
}

// maker is what is to make a Secret.
type maker struct {
	evidence   finding.Evidence
	text, hint string
}

// makers are the kinds whose objects make Secrets, and what they tell of it.
var makers = []struct {
	group, resource, condition string
	// path of the Secret's name; an object that has none there gives the Secret its own.
	path []string
}{
	{certManager, "certificates", "Ready", []string{"spec", "secretName"}},
	{"external-secrets.io", "externalsecrets", "Ready", []string{"spec", "target", "name"}},
	{"bitnami.com", "sealedsecrets", "Synced", []string{"spec", "template", "metadata", "name"}},
}

// maker finds who is to make a Secret; false when no object says that it does.
func (c *Cluster) maker(ctx context.Context, r reference) (maker, bool) {
	if r.kind != "Secret" {
		return maker{}, false
	}
	for _, m := range makers {
		for _, o := range c.custom(ctx, m.group, m.resource) {
			if o.GetNamespace() != r.namespace || cmp.Or(field(o, m.path...), o.GetName()) != r.name {
				continue
			}
			is := conditionOf(o, m.condition)
			what := o.GetKind() + " " + o.GetName()
			text := joined(what+" is to make it", is.why())
			if is.status == "True" {
				text = what + " has made it, and somebody has deleted it since"
			} else if is.typ == "" {
				text = what + " is to make it, and nobody has looked at that: its controller may not run"
			}
			return maker{is.evidence(nameOf(o)), text, "see " + describe(strings.ToLower(o.GetKind()), r.namespace, o.GetName())}, true
		}
	}
	return maker{}, false
}
