package k0rdent_test

import (
	"testing"

	"github.com/kplan-dev/kplan/foreign/internal/importtest"
	"github.com/kplan-dev/kplan/foreign/k0rdent"
)

// Objects of k0rdent, the plans that they become, and what is told of them.
func TestImport(t *testing.T) { importtest.Golden(t, k0rdent.Import) }

func FuzzImport(f *testing.F) { importtest.Fuzz(f, "services.yaml", k0rdent.Import) }
