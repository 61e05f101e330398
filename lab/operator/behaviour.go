package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// condition is one entry of status.conditions, as JSON.
func condition(kind string, is bool, reason, message string) map[string]any {
	status := "False"
	if is {
		status = "True"
	}
	return map[string]any{
		"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": rfc3339(time.Now()),
	}
}

func conditionStatus(obj *unstructured.Unstructured, conditions ...map[string]any) map[string]any {
	list := make([]any, len(conditions))
	for i, c := range conditions {
		list[i] = c
	}
	return map[string]any{"observedGeneration": obj.GetGeneration(), "conditions": list}
}

// keepTransitions gives each condition of the new status the old time when it
// did not flip, so that equal states compare equal.
func keepTransitions(old, status map[string]any) {
	before, _, _ := unstructured.NestedSlice(old, "conditions")
	now, _ := status["conditions"].([]any)
	for _, n := range now {
		for _, b := range before {
			nm, okN := n.(map[string]any)
			bm, okB := b.(map[string]any)
			if okN && okB && nm["type"] == bm["type"] && nm["status"] == bm["status"] && bm["lastTransitionTime"] != nil {
				nm["lastTransitionTime"] = bm["lastTransitionTime"]
			}
		}
	}
}

// becomeReady sets Ready after --ready-delay, with observedGeneration.
func becomeReady(_ context.Context, c *controller, obj *unstructured.Unstructured, age time.Duration) (map[string]any, time.Duration, error) {
	if left := c.cfg.ReadyDelay - age; left > 0 {
		return conditionStatus(obj, condition("Ready", false, "Progressing", "waits for its turn")), left, nil
	}
	return conditionStatus(obj, condition("Ready", true, "Reconciled", obj.GetKind()+" is reconciled")), 0, nil
}

// becomeOperational sets status.updateStatus, which VictoriaMetrics' operator
// has instead of a Ready condition (VictoriaMetrics/operator: api/operator/v1beta1).
func becomeOperational(_ context.Context, c *controller, obj *unstructured.Unstructured, age time.Duration) (map[string]any, time.Duration, error) {
	status := map[string]any{"observedGeneration": obj.GetGeneration(), "updateStatus": "expanding"}
	if left := c.cfg.ReadyDelay - age; left > 0 {
		return status, left, nil
	}
	status["updateStatus"] = "operational"
	return status, 0, nil
}

// issue fills the Secret spec.secretName after --issue-delay, with cert-manager's
// reasons and annotation (cert-manager: pkg/controller/certificates).
func issue(ctx context.Context, c *controller, obj *unstructured.Unstructured, age time.Duration) (map[string]any, time.Duration, error) {
	name := field(obj.Object, "spec", "secretName")
	if name == "" {
		return conditionStatus(obj, condition("Ready", false, "InvalidSpec", "spec.secretName is empty")), 0, nil
	}
	have, err := c.secrets.get(ctx, obj.GetNamespace(), name)
	if err != nil {
		return nil, 0, err
	}
	left := c.cfg.IssueDelay - age
	if have == nil && left > 0 {
		return conditionStatus(obj,
			condition("Ready", false, "DoesNotExist", "Issuing certificate as Secret does not exist"),
			condition("Issuing", true, "DoesNotExist", "Issuing certificate as Secret does not exist"),
		), left, nil
	}
	if have == nil {
		names, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "dnsNames")
		if len(names) == 0 {
			names = serviceNames(obj.GetName(), obj.GetNamespace())
		}
		p, err := newPair(names, "")
		if err != nil {
			return nil, 0, err
		}
		s := p.secret(obj.GetNamespace(), name)
		s.SetAnnotations(map[string]string{obj.GroupVersionKind().Group + "/certificate-name": obj.GetName()})
		if err := c.secrets.create(ctx, s); err != nil {
			return nil, 0, err
		}
	}
	return conditionStatus(obj, condition("Ready", true, "Ready", "Certificate is up to date and has not expired")), 0, nil
}

// validateTemplate sets a ServiceTemplate's status.valid once its HelmRepository
// is there and --ready-delay is over, as KCM does when Flux has brought the chart
// (k0rdent/kcm: internal/controller/template_controller.go). It is set anew every
// second, so that a repository which is deleted shows.
func validateTemplate(ctx context.Context, c *controller, obj *unstructured.Unstructured, age time.Duration) (map[string]any, time.Duration, error) {
	chart := func(path ...string) string {
		return field(obj.Object, append([]string{"spec", "helm", "chartSpec"}, path...)...)
	}
	status := map[string]any{"observedGeneration": obj.GetGeneration(), "valid": false}
	repository := schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "helmrepositories"}
	_, err := c.client.Resource(repository).Namespace(obj.GetNamespace()).Get(ctx, chart("sourceRef", "name"), metav1.GetOptions{})
	switch name := chart("chart") + ":" + chart("version"); {
	case apierrors.IsNotFound(err):
		status["validationError"] = fmt.Sprintf("failed to get source: %v", err)
	case err != nil:
		return nil, 0, err
	case c.cfg.Missing.has(name):
		status["validationError"] = "failed to download chart: " + name + " is not in the repository"
	case age >= c.cfg.ReadyDelay:
		status["valid"] = true
		status["chartVersion"] = chart("version")
	}
	return status, time.Second, nil
}
