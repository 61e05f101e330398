package charts

import (
	"context"

	"sigs.k8s.io/yaml"
)

// imageAnnotations are those of Chart.yaml that list images, as YAML: Artifact Hub's
// (artifacthub.io/docs/topics/annotations/helm), and two that hauler reads too.
var imageAnnotations = []string{"artifacthub.io/images", "helm.sh/images", "images"}

// Images are the container images that annotations of the chart, and of those that it
// is made of, list: what its operator runs later, for example.
func (c *Chart) Images(ctx context.Context) ([]string, error) {
	ch, err := c.Source.Load(ctx)
	if err != nil {
		return nil, err
	}
	all := listed(ch.Metadata.Annotations)
	for _, sub := range ch.Dependencies() {
		all = append(all, listed(sub.Metadata.Annotations)...)
	}
	return all, nil
}

// listed reads lists of names and images; one that cannot be read is no list.
func listed(annotations map[string]string) []string {
	var all []string
	for _, key := range imageAnnotations {
		var list []struct {
			Image string `json:"image"`
		}
		if yaml.Unmarshal([]byte(annotations[key]), &list) != nil {
			continue
		}
		for _, l := range list {
			if l.Image != "" {
				all = append(all, l.Image)
			}
		}
	}
	return all
}
