package kubeerr

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestSecretsStayOutOfErrors(t *testing.T) {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"},
		"stringData": map[string]any{"token": "hunter2\n\"quoted\""}, "data": map[string]any{"key": "c3dvcmRmaXNo", "n": "x"},
	}}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s",
		field.ErrorList{field.Invalid(field.NewPath("data").Key("token"), "hunter2\n\"quoted\"", "no swordfish, please")})
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"an invalid field": {invalid, `Secret "s" is invalid: data[token]: FieldValueInvalid`},
		"a value as it was sent, and decoded": {
			apierrors.NewBadRequest("cannot decode c3dvcmRmaXNo, that is swordfish"), "cannot decode [redacted], that is [redacted]",
		},
		"a value in quotes, and in base64": {
			fmt.Errorf("refused: %q aHVudGVyMgoicXVvdGVkIg==", "hunter2\n\"quoted\""), `refused: "[redacted]" [redacted]`,
		},
		"nothing secret": {errors.New("connection refused"), "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Redact(tt.err, secret)
			require.EqualError(t, got, tt.want)
			for err := got; err != nil; err = errors.Unwrap(err) {
				require.NotContains(t, fmt.Sprintf("%+v %#v", err, err), "swordfish")
				require.NotContains(t, fmt.Sprintf("%+v %#v", err, err), "hunter2")
			}
			require.Equal(t, apierrors.ReasonForError(tt.err), apierrors.ReasonForError(got), "its type stays")
		})
	}
	other := secret.DeepCopy()
	other.SetKind("ConfigMap")
	require.Equal(t, error(invalid), Redact(invalid, other), "other kinds are told in full")
	require.Equal(t, metav1.StatusReasonInvalid, apierrors.ReasonForError(Redact(invalid, secret)))
}
