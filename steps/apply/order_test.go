package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPhases(t *testing.T) {
	for kind, want := range map[schema.GroupKind]phase{
		{Kind: "Namespace"}: first,
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: first,
		{Kind: "Secret"}: ground,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}: ground,
		{Kind: "Pod"}:                       work,
		{Group: "apps", Kind: "Deployment"}: work,
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: work,
		{Group: "cert-manager.io", Kind: "Certificate"}:                                 custom,
		{Group: "gateway.networking.k8s.io", Kind: "Gateway"}:                           custom,
	} {
		require.Equal(t, want, phaseOf(kind), kind.String())
	}
}
