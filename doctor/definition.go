package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// definition is what is read of a CustomResourceDefinition. Its schemas are not decoded:
// those of a cluster can take some 100 MB.
type definition struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Group    string              `json:"group"`
		Names    definitionNames     `json:"names"`
		Scope    string              `json:"scope"`
		Versions []definitionVersion `json:"versions"`
		// Conversion says how objects are converted.
		Conversion struct {
			Strategy string `json:"strategy"`
		} `json:"conversion"`
	} `json:"spec"`
	Status struct {
		Conditions     []metav1.Condition `json:"conditions"`
		StoredVersions []string           `json:"storedVersions"`
	} `json:"status"`
}

type definitionNames struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular"`
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind"`
	ShortNames []string `json:"shortNames"`
}

type definitionVersion struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
}

// String names the CRD as Finding.Object does.
func (d definition) String() string { return object("CustomResourceDefinition", "", d.Name) }

// condition is the one of a type; it is empty when there is none.
func (d definition) condition(typ string) metav1.Condition {
	for _, c := range d.Status.Conditions {
		if c.Type == typ {
			return c
		}
	}
	return metav1.Condition{}
}

// converted reports whether objects are converted: they are served in a version that others
// are stored in, or that others are served in. A version that is not served and that
// nothing is stored in counts for nothing.
func (d definition) converted() bool {
	versions := map[string]bool{}
	for _, v := range d.Spec.Versions {
		if v.Served {
			versions[v.Name] = true
		}
	}
	for _, v := range d.Status.StoredVersions {
		versions[v] = true
	}
	return len(versions) > 1
}

// definitions returns all CRDs.
func (c *Cluster) definitions(ctx context.Context) []definition {
	return once(c, "definitions", func() []definition {
		var all []definition
		err := pages(func(o metav1.ListOptions) (string, error) {
			text, err := c.discovery.RESTClient().Get().AbsPath("apis", definitionResource.Group, definitionResource.Version, definitionResource.Resource).
				Param("limit", strconv.FormatInt(o.Limit, 10)).Param("continue", o.Continue).Do(ctx).Raw()
			if err != nil {
				return "", err
			}
			var list struct {
				metav1.ListMeta `json:"metadata"`
				Items           []definition `json:"items"`
			}
			if err := json.Unmarshal(text, &list); err != nil {
				return "", fmt.Errorf("reading the list: %w", err)
			}
			all = append(all, list.Items...)
			return list.Continue, nil
		})
		c.note(definitionResource, err)
		return all
	})
}
