package argocd_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/argocd"
	"github.com/kplan-dev/kplan/foreign/internal/importtest"
)

// Applications, the plans that they become, and what is told of them.
func TestImport(t *testing.T) { importtest.Golden(t, argocd.Import) }

func FuzzImport(f *testing.F) { importtest.Fuzz(f, "application.yaml", argocd.Import) }

// secretParameter is an Application with a password as a parameter of its chart.
const secretParameter = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: argocd}
spec:
  destination: {namespace: shop}
  source:
    repoURL: https://charts.example.com
    chart: shop
    targetRevision: 1.0.0
    helm: {parameters: [{name: admin.password, value: hunter4711}]}
`

// A parameter that is a secret ends kplan by a panic.
func TestSecretParameter(t *testing.T) {
	in := foreign.Input{
		Files: []foreign.File{{Name: "shop.yaml", Data: []byte(secretParameter)}}, Dir: ".",
		Read: func(string) ([]byte, error) { return nil, errors.New("nothing is there") },
	}
	require.Panics(t, func() { _, _ = argocd.Import(in) })
}
