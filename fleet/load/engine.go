package load

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kplan-dev/kplan/plan/document"
)

// checkEngine looks at where the plan runs.
func (p *pass) checkEngine() {
	p.oneOf(path{"engine"}, []string{"local", "kubernetes"}, "keep one of them")
	k := p.Engine.Kubernetes
	if k == nil {
		return
	}
	at := path{"engine", "kubernetes"}
	p.checkClusterName(k.Cluster, at.Key("cluster"))
	p.checkLabel(k.Namespace, "name of a namespace", at.Key("namespace"))
	p.checkText(at.Key("image"), "remove it to mean that of this version of kplan")
	if strings.ContainsAny(k.Image, " \t\n") || strings.Contains(k.Image, "://") {
		p.Report(fault{At: at.Key("image"), Hint: "write it as ghcr.io/org/kplan:v1, without a scheme"}, "%q cannot be a container image", document.Cut(k.Image, 80))
	}
	p.checkText(at.Key("bundle"), "remove it to use a ConfigMap")
	if rest, is := strings.CutPrefix(k.Bundle, "oci://"); k.Bundle != "" && (!is || !strings.Contains(rest, "/") || strings.ContainsAny(rest, "@ ")) {
		p.Report(fault{At: at.Key("bundle"), Hint: "write a repository as oci://registry.example.com/fleets"}, "%q is no repository of an OCI registry", document.Cut(k.Bundle, 80))
	}
	p.checkSubdomain(k.ServiceAccount, "ServiceAccount", at.Key("service_account"))
	p.checkSubdomain(k.DriverServiceAccount, "ServiceAccount", at.Key("driver_service_account"))
	for i, name := range k.ImagePullSecrets {
		p.checkSubdomain(name, "Secret", at.Key("image_pull_secrets").Index(i))
	}
	if k.Resources != nil {
		p.checkQuantities(k.Resources.Requests, at.Key("resources").Key("requests"))
		p.checkQuantities(k.Resources.Limits, at.Key("resources").Key("limits"))
	}
	for i, toleration := range k.Tolerations {
		p.checkToleration(toleration, at.Key("tolerations").Index(i))
	}
}

func (p *pass) checkQuantities(all map[string]string, at path) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		q, err := resource.ParseQuantity(all[name])
		if err != nil || q.Sign() < 0 {
			if all[name] != "" || p.value(at.Key(name)) == "" {
				p.Report(fault{At: at.Key(name), Hint: "write a quantity such as 100m or 128Mi"}, "%q is no quantity", document.Cut(all[name], 60))
			}
		}
	}
}

// tolerationFields are those of a toleration of a pod.
var tolerationFields = []string{"key", "operator", "value", "effect", "tolerationSeconds"}

func (p *pass) checkToleration(t map[string]any, at path) {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if slices.Contains(tolerationFields, name) {
			continue
		}
		hint := p.near.Hint(name, tolerationFields)
		if hint == "" {
			hint = "known here: " + strings.Join(tolerationFields, ", ")
		}
		p.ReportField(fault{Code: document.CodeUnknownField, At: at.Key(name), Hint: hint}, "unknown field %q", name)
	}
}
