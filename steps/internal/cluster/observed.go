package cluster

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// describing bounds how long a CustomResourceDefinition may take to be read.
const describing = 5 * time.Second

var definitions = kinds.Definitions.GroupVersion().WithResource("customresourcedefinitions")

// Observed reports whether the status of a custom resource has observedGeneration, by the
// schema of its kind. That is read once; no where it may not be read.
func (c *Cluster) Observed(ctx context.Context, kind schema.GroupVersionKind) bool {
	if known, ok := c.observed.Load(kind); ok {
		return known.(bool)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, describing, context.DeadlineExceeded)
	defer cancel()
	m, err := c.Mapping(ctx, kind)
	if err != nil {
		return false
	}
	crd, err := c.Client.Resource(definitions).Get(ctx, m.Resource.Resource+"."+kind.Group, metav1.GetOptions{})
	has := err == nil && slices.Contains(kinds.DefinitionOf(crd).Observed, kind.Version)
	if ctx.Err() == nil {
		c.observed.Store(kind, has)
	}
	return has
}
