package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kplan-dev/kplan/plan/finding"
)

// pods are what a workload makes.
type pods struct {
	template  corev1.PodTemplateSpec
	raw       map[string]any
	namespace string
	// replicas is how many; 0 when nodes decide.
	replicas int64
}

// podOf is what an object makes; nil for one that makes no pods.
func podOf(u *unstructured.Unstructured) *pods {
	path := []string{"spec", "template"}
	p := &pods{namespace: u.GetNamespace()}
	switch gvk := u.GroupVersionKind(); gvk.Group + " " + gvk.Kind {
	case "apps Deployment", "apps StatefulSet", "apps ReplicaSet":
		p.replicas = number(u, 1, "spec", "replicas")
	case "apps DaemonSet":
	case "batch Job":
		p.replicas = number(u, 1, "spec", "parallelism")
	case "batch CronJob":
		path = []string{"spec", "jobTemplate", "spec", "template"}
	default:
		return nil
	}
	raw, _, _ := unstructured.NestedMap(u.Object, path...)
	if raw == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &p.template) != nil {
		return nil
	}
	p.raw = raw
	return p
}

// number is a whole number of an object, or what holds without it.
func number(u *unstructured.Unstructured, without int64, path ...string) int64 {
	if n, found, err := unstructured.NestedInt64(u.Object, path...); found && err == nil {
		return n
	}
	return without
}

// object is one of the pods, as its controller makes it.
func (p *pods) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": p.raw["spec"]}}
	u.SetNamespace(p.namespace)
	u.SetName("pod") // nobody knows it
	u.SetLabels(p.template.Labels)
	u.SetAnnotations(p.template.Annotations)
	return u
}

// enforceLabel says which Pod Security Standard a namespace holds its pods to.
const enforceLabel = "pod-security.kubernetes.io/enforce"

// security looks whether a namespace admits the pods of what is made in it, as far as that
// is cheap to say (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func (o *one) security(namespace, level string, writes []write) {
	if level != "baseline" && level != "restricted" {
		return
	}
	for _, w := range writes {
		p := podOf(w.object)
		if p == nil {
			continue
		}
		why := insecure(p.template.Spec, level == "restricted")
		if len(why) == 0 {
			continue
		}
		hint := "change the pods, or the namespace's label " + enforceLabel
		f := Find(Pods, w.step.Step, hint, fmt.Sprintf("namespace %s enforces the pod security standard %s, which pods of %s do not meet: %s",
			namespace, level, nameOf(w.object), some(why)), "name")
		f.Object = nameOf(w.object)
		f.Evidence = []finding.Evidence{{Object: "Namespace/" + namespace, Field: "metadata.labels." + enforceLabel, Value: level}}
		o.find(f)
	}
}

// baseline are the capabilities that containers may add where the standard is baseline.
var baseline = []corev1.Capability{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// insecure says what of a pod a standard forbids.
func insecure(spec corev1.PodSpec, restricted bool) []string {
	var why []string
	add := func(bad bool, text string) {
		if bad && !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	add(spec.HostNetwork, "hostNetwork")
	add(spec.HostPID, "hostPID")
	add(spec.HostIPC, "hostIPC")
	for _, v := range spec.Volumes {
		add(v.HostPath != nil, "volume "+v.Name+" is a hostPath")
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		s := c.SecurityContext
		if s == nil {
			s = &corev1.SecurityContext{}
		}
		for _, port := range c.Ports {
			add(port.HostPort != 0, "container "+c.Name+" has a hostPort")
		}
		add(is(s.Privileged), "container "+c.Name+" is privileged")
		if s.Capabilities != nil {
			for _, added := range s.Capabilities.Add {
				add(!slices.Contains(baseline, corev1.Capability(strings.TrimPrefix(string(added), "CAP_"))), fmt.Sprintf("container %s adds %s", c.Name, added))
			}
		}
		if restricted {
			loose(spec.SecurityContext, s, c.Name, add)
		}
	}
	return why
}

// loose says what the standard restricted asks of a container besides.
func loose(of *corev1.PodSecurityContext, s *corev1.SecurityContext, name string, add func(bool, string)) {
	if of == nil {
		of = &corev1.PodSecurityContext{}
	}
	nonRoot, profile := s.RunAsNonRoot, s.SeccompProfile
	if nonRoot == nil {
		nonRoot = of.RunAsNonRoot
	}
	if profile == nil {
		profile = of.SeccompProfile
	}
	add(!is(nonRoot), "container "+name+" lacks runAsNonRoot: true")
	add(s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation, "container "+name+" lacks allowPrivilegeEscalation: false")
	add(profile == nil || profile.Type == corev1.SeccompProfileTypeUnconfined, "container "+name+" lacks a seccompProfile")
	add(s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL"), "container "+name+" does not drop ALL capabilities")
}

func is(b *bool) bool { return b != nil && *b }
