package charts

import (
	"fmt"
	"maps"
	"os"
	"slices"

	helmvalues "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/strvals"
)

// setFiles puts the texts of the step's set_file into values, as helm's --set-file does.
func (c *Chart) setFiles(values map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(c.Spec.SetFile)) {
		text, err := os.ReadFile(c.step.Path(c.Spec.SetFile[name]))
		if err == nil {
			err = strvals.ParseIntoFile(name+"=FILE", values, func([]rune) (any, error) { return string(text), nil })
		}
		if err != nil {
			return fmt.Errorf("set_file %s: %w", name, err)
		}
	}
	return nil
}

// Coalesce merges values over those before, and changes the former. What they have wins,
// and null takes away.
func Coalesce(values, before map[string]any) map[string]any {
	return helmvalues.CoalesceTables(values, before)
}
