package helmfile_test

import (
	"testing"

	"github.com/kplan-dev/kplan/foreign/helmfile"
	"github.com/kplan-dev/kplan/foreign/internal/importtest"
)

// Helmfiles, the plans that they become, and what is told of them.
func TestImport(t *testing.T) { importtest.Golden(t, helmfile.Import) }

func FuzzImport(f *testing.F) { importtest.Fuzz(f, "helmfile.yaml", helmfile.Import) }
