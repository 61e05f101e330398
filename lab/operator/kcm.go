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
