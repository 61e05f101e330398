package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Commands are renamed, and sentences about kplan are not.
func TestCalled(t *testing.T) {
	plugin := app{name: nameOf("/home/me/.krew/bin/kubectl-kplan"), commands: []string{"run", "lint"}}
	for text, want := range map[string]string{
		"":                                   "",
		"kplan run plan.yaml":                "kubectl kplan run plan.yaml",
		"see 'kplan run --help'":             "see 'kubectl kplan run --help'",
		"kplan lint && kplan run x":          "kubectl kplan lint && kubectl kplan run x",
		"first\nkplan run":                   "first\nkubectl kplan run",
		"kubectl kplan run":                  "kubectl kplan run",
		"kplan runs a plan":                  "kplan runs a plan",
		"kplan knows no Helm":                "kplan knows no Helm",
		"/usr/bin/kplan run, my-kplan run":   "/usr/bin/kplan run, my-kplan run",
		"helm template . | kplan run - -n x": "helm template . | kubectl kplan run - -n x",
	} {
		assert.Equal(t, want, plugin.called(text))
		alone := app{name: nameOf("/usr/bin/kplan"), commands: plugin.commands}
		assert.Equal(t, text, alone.called(text))
	}
	assert.Equal(t, asPlugin, nameOf(`kubectl-kplan.exe`))
}
