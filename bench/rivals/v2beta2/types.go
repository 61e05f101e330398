// Package v2beta2 lets the KEDA types of Flagger, which helmfile links, compile with
// a k8s.io/api that no longer has this version: v2 has the same types.
package v2beta2

import "k8s.io/api/autoscaling/v2"

// Those that KEDA's types name.
type (
	HorizontalPodAutoscalerBehavior = v2.HorizontalPodAutoscalerBehavior
	MetricTargetType                = v2.MetricTargetType
)
