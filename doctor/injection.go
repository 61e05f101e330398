package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan/finding"
)

// Annotations by which a configuration says who fills in its CA bundles: cert-manager's
// cainjector (cert-manager/cert-manager pkg/apis/certmanager/v1/types.go) and OpenShift's
// service-ca operator.
const (
	injectFrom       = "cert-manager.io/inject-ca-from"
	injectFromSecret = "cert-manager.io/inject-ca-from-secret"
	injectAPIServer  = "cert-manager.io/inject-apiserver-ca"
	injectServiceCA  = "service.beta.openshift.io/inject-cabundle"
	// allowInjection is what a Secret of inject-ca-from-secret needs.
	allowInjection = "cert-manager.io/allow-direct-injection"
)

var certificates = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}

// injection is who is to fill in a CA bundle, and why that was not done.
type injection struct {
	text     string
	hint     string
	evidence []finding.Evidence
	// itself says that nothing names an injector: it is the webhook's own program, mostly.
	itself bool
}

// injection finds out who is to fill in a webhook's CA bundle.
func (c *Cluster) injection(ctx context.Context, h hook) injection {
	var i injection
	o, _ := c.get(ctx, h.resource(), "", h.Configuration)
	if o == nil {
		return injection{itself: true, hint: "see who is to fill it in: kubectl get " + h.kubectl() + " -o yaml"}
	}
	for _, name := range []string{injectFrom, injectFromSecret, injectAPIServer, injectServiceCA} {
		value := o.GetAnnotations()[name]
		if value == "" {
			continue
		}
		i.evidence = append(i.evidence, finding.Evidence{Object: h.Source().String(), Field: "metadata.annotations[" + name + "]", Value: value})
		namespace, from, _ := strings.Cut(value, "/")
		switch name {
		case injectFrom:
			c.fromCertificate(ctx, &i, namespace, from)
		case injectFromSecret:
			c.fromSecret(ctx, &i, namespace, from)
		case injectServiceCA:
			i.text, i.hint = "the service-ca operator is to fill it in", "see its log"
		}
		if i.text == "" {
			c.fromInjector(ctx, &i)
		}
		return i
	}
	if job := c.failedHook(ctx, h); job != nil {
		return *job
	}
	i.itself = true
	i.text = fmt.Sprintf("nothing tells who fills it in: mostly the program behind Service %s", h.Service())
	i.hint = "see that program's log, and whether it may patch " + h.resource().Resource
	return i
}

// fromCertificate says why cainjector has nothing to fill in from a Certificate.
func (c *Cluster) fromCertificate(ctx context.Context, i *injection, namespace, name string) {
	certificate, known := c.get(ctx, certificates, namespace, name)
	at := object("Certificate", namespace, name)
	ready := condition{}
	if certificate != nil {
		ready = conditionOf(certificate, "Ready")
	}
	switch {
	case certificate == nil && known:
		i.text = fmt.Sprintf("cert-manager is to take it from %s, which does not exist", at)
		i.hint = "make the Certificate, or correct the annotation"
		i.evidence = append(i.evidence, finding.Evidence{Object: at, Field: "metadata.name", Value: "does not exist"})
	case certificate != nil && ready.status != "True":
		i.text = because(fmt.Sprintf("cert-manager is to take it from %s, which is not ready", at), ready.why())
		i.hint = "see why: " + describe("Certificate", namespace, name)
		i.evidence = append(i.evidence, ready.evidence(at))
	}
}

// fromSecret says why cainjector has nothing to fill in from a Secret. Of the Secret
// only the metadata is read.
func (c *Cluster) fromSecret(ctx context.Context, i *injection, namespace, name string) {
	secret, known := c.metaOf(ctx, secretResource, namespace, name)
	at := object("Secret", namespace, name)
	switch {
	case secret == nil && known:
		i.text = fmt.Sprintf("cert-manager is to take it from %s, which does not exist", at)
		i.hint = "see what is to make that Secret"
		i.evidence = append(i.evidence, finding.Evidence{Object: at, Field: "metadata.name", Value: "does not exist"})
	case secret != nil && secret.Annotations[allowInjection] != "true":
		i.text = fmt.Sprintf("cert-manager is to take it from %s, which does not allow that", at)
		i.hint = fmt.Sprintf("kubectl annotate -n %s secret %s %s=true", namespace, name, allowInjection)
		i.evidence = append(i.evidence, finding.Evidence{Object: at, Field: "metadata.annotations[" + allowInjection + "]", Value: "not true"})
	}
}

// fromInjector says whether cainjector runs.
func (c *Cluster) fromInjector(ctx context.Context, i *injection) {
	i.text, i.hint = "cert-manager's cainjector is to fill it in", "see its log"
	all, known := c.workloads(ctx)
	injectors := slices.DeleteFunc(slices.Clone(all), func(w workload) bool {
		return !slices.ContainsFunc(w.programs, func(name string) bool { return strings.Contains(name, "cainjector") })
	})
	switch {
	case !known:
	case len(injectors) == 0:
		i.text += ", and there is none"
		i.hint = "install cert-manager with its cainjector"
		i.evidence = append(i.evidence, finding.Evidence{Object: "Deployments of all namespaces", Field: "spec.template.spec.containers", Value: "none is cainjector"})
	case !slices.ContainsFunc(injectors, func(w workload) bool { return w.ready > 0 }):
		i.text += fmt.Sprintf(", and none of %s is ready", injectors[0])
		i.hint = describe(injectors[0].Kind, injectors[0].Namespace, injectors[0].Name)
		i.evidence = append(i.evidence, finding.Evidence{Object: injectors[0].String(), Field: "status.readyReplicas", Value: "0"})
	default:
		i.hint = fmt.Sprintf("see its log: kubectl logs -n %s %s/%s", injectors[0].Namespace, strings.ToLower(injectors[0].Kind), injectors[0].Name)
	}
}

// failedHook finds the Job of the webhook's release that runs after an install or upgrade
// and did not succeed; nil without. Helm puts no owner on hooks: it is told by its label,
// or by its name.
func (c *Cluster) failedHook(ctx context.Context, h hook) *injection {
	namespace, release, ok := strings.Cut(h.Owner.Release, "/")
	if !ok {
		return nil
	}
	for _, j := range all[batchv1.Job](c.selected(ctx, jobResource, namespace, "", "")) {
		ofRelease := j.Labels["app.kubernetes.io/instance"] == release || strings.HasPrefix(j.Name, release+"-")
		if !ofRelease || !strings.Contains(j.Annotations["helm.sh/hook"], "post-") || j.Status.Succeeded > 0 {
			continue
		}
		at, value := object("Job", j.Namespace, j.Name), "not there yet"
		text := fmt.Sprintf("Helm hook %s, which runs after the release is installed, has not ended", at)
		if k := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
		}); k >= 0 {
			value = j.Status.Conditions[k].Reason
			text = fmt.Sprintf("Helm hook %s, which runs after the release is installed, failed: %s", at, value)
		}
		return &injection{
			text: text, hint: fmt.Sprintf("see its log, and upgrade the release to run it again: kubectl logs -n %s job/%s", namespace, j.Name),
			evidence: []finding.Evidence{{Object: at, Field: "status.conditions[Failed]", Value: value}},
		}
	}
	return nil
}
