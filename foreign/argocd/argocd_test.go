package argocd_test

import (
	"testing"

	"github.com/kplan-dev/kplan/foreign/argocd"
	"github.com/kplan-dev/kplan/foreign/internal/importtest"
)

// Applications, the plans that they become, and what is told of them.
func TestImport(t *testing.T) { importtest.Golden(t, argocd.Import) }

func FuzzImport(f *testing.F) { importtest.Fuzz(f, "application.yaml", argocd.Import) }
