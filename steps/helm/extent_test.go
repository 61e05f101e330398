package helm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/steps/internal/charts"
)

// What a release's programs made is known by their names. Names that many programs
// bear, and those of tools, do not tell who made something.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		manifest string
		want     []string
	}{
		"the container, its image and its command": {
			manifest: `{kind: Deployment, spec: {template: {spec: {containers: [{name: main, image: "r.io/x/shop-operator:1", command: [/bin/shop]}]}}}}`,
			want:     []string{"shop", "shop-operator"},
		},
		"names of many programs": {
			manifest: `{kind: Deployment, spec: {template: {spec: {containers: [
				{name: manager, image: "r.io/controller:1", command: [/manager]}, {name: controller-manager, image: app, args: [x]}, {name: main, image: "server@sha256:00"}]}}}}`,
		},
		"tools": {manifest: `{kind: Job, spec: {template: {spec: {containers: [{name: kubectl, image: kubectl, command: [helm]}]}}}}`},
		"a job that recurs, and what goes before": {
			manifest: `{kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: {initContainers: [{name: prepare}], containers: [{name: sweep}]}}}}}}`,
			want:     []string{"prepare", "sweep"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := charts.Decode(tt.manifest)
			require.NoError(t, err)
			got := programs(objects)
			if len(tt.want) == 0 {
				require.Empty(t, got)
				return
			}
			require.Equal(t, tt.want, got)
		})
	}
}
