package script_test

import (
	"testing"

	"github.com/kplan-dev/kplan/foreign/internal/importtest"
	"github.com/kplan-dev/kplan/foreign/script"
)

// Scripts, the plans that they become, and what is told of them.
func TestImport(t *testing.T) { importtest.Golden(t, script.Import) }

func FuzzShell(f *testing.F) { importtest.Fuzz(f, "install.sh", script.Import) }

func FuzzMakefile(f *testing.F) { importtest.Fuzz(f, "Makefile", script.Import) }
