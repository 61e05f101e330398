package helm

import (
	"errors"
	"regexp"
	"strings"

	helmkube "helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// quotedValues are the places where the JSON schema library puts a value into
// an error (github.com/santhosh-tekuri/jsonschema/v6/kind/kind.go); each is on
// one line.
var quotedValues = []struct {
	at *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`: '.*' does not match pattern `), ": the value does not match pattern "},
	{regexp.MustCompile(`: (?:'.*'|\S+) is not valid (\S+): .*`), ": the value is not a valid $1"},
	{regexp.MustCompile(`((?:inimum|aximum|multipleOf): got )\S+, `), "${1}another, "},
}

// withoutValues takes the values of a chart out of what its schema says of
// them; their paths and the rules stay.
func withoutValues(text string) string {
	if !strings.Contains(text, schemaFault) {
		return text
	}
	for _, q := range quotedValues {
		text = q.at.ReplaceAllString(text, q.by)
	}
	return text
}

// secretsOf are the Secrets among resources, as they are before Helm puts the
// API server's answers in their place.
func secretsOf(resources helmkube.ResourceList) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, info := range resources {
		if gk := info.Mapping.GroupVersionKind.GroupKind(); gk.Group != "" || gk.Kind != "Secret" {
			continue
		}
		if o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object); err == nil {
			u := (&unstructured.Unstructured{Object: o}).DeepCopy()
			u.SetGroupVersionKind(info.Mapping.GroupVersionKind)
			out = append(out, u)
		}
	}
	return out
}

// withoutSecrets takes the data of Secrets out of an error, unless it is known
// to be about another object.
func withoutSecrets(err error, secrets []*unstructured.Unstructured) error {
	for _, u := range secrets {
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			d := status.Status().Details
			if d != nil && (d.Kind != "" && d.Kind != "Secret" && d.Kind != "secrets" || d.Name != "" && d.Name != u.GetName()) {
				continue
			}
		}
		err = kubeerr.Redact(err, u)
	}
	return err
}
