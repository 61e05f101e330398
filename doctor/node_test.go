package doctor_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// TestStatesOfPods is TestStates for states that need pods which run: they have names
// of their own, POD in what is found, and IMAGE, the lab's operator.
func TestStatesOfPods(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	files, err := filepath.Glob("testdata/states/pods/*.txtar")
	require.NoError(t, err)
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(t, err)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			s := newState(t, lab)
			s.hide = regexp.MustCompile(`\bcert-gen-[a-z0-9]{5}\b`)
			s.try(t, file, a)
		})
	}
}
