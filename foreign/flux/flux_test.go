package flux_test

import (
	"testing"

	"github.com/kplan-dev/kplan/foreign/flux"
	"github.com/kplan-dev/kplan/foreign/internal/importtest"
)

// Objects of Flux, the plans that they become, and what is told of them.
func TestImport(t *testing.T) { importtest.Golden(t, flux.Import) }

func FuzzImport(f *testing.F) { importtest.Fuzz(f, "flux.yaml", flux.Import) }
