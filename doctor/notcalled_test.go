package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/doctor"
	"github.com/kplan-dev/kplan/internal/labtest"
)

// Each file of testdata/notcalled is a cluster and an object:
//
//	-- cluster.yaml --  its webhooks, and what they are called at
//	-- object.yaml --   the object that is to be written
//	-- calls.txt --     what the API server does about each webhook, and why
func TestWhyNotCalled(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	files, err := filepath.Glob("testdata/notcalled/*.txtar")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			require.NoError(t, err)
			s := newState(t, lab)
			s.send(t, textOf(a, "cluster.yaml"))
			var o *unstructured.Unstructured
			s.objects(t, textOf(a, "object.yaml"), func(_ dynamic.ResourceInterface, u *unstructured.Unstructured) { o = u })
			c, err := doctor.New(lab.Config(t))
			require.NoError(t, err)
			calls, err := c.WhyNotCalled(t.Context(), o)
			require.NoError(t, err)
			var b strings.Builder
			for _, call := range calls {
				if !strings.Contains(call.Configuration, s.namespace) {
					continue
				}
				fmt.Fprintf(&b, "%s %s %s of %s: %s\n", call.Operation, call.Outcome, call.Webhook, call.Configuration, call.Reason)
				if call.Trouble != "" {
					fmt.Fprintf(&b, "  trouble: %s\n", call.Trouble)
				}
			}
			got := strings.ReplaceAll(b.String(), s.namespace, "NAMESPACE")
			if *update {
				put(a, "calls.txt", got)
				require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o600))
				return
			}
			require.Equal(t, textOf(a, "calls.txt"), got)
		})
	}
}

// Of a kind that is not served nothing can be said.
func TestWhyNotCalledUnserved(t *testing.T) {
	t.Parallel()
	c, err := doctor.New(labtest.ControlPlane(t).Config(t))
	require.NoError(t, err)
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte("{apiVersion: example.com/v1, kind: Unknown, metadata: {name: a}}"), &o.Object))
	_, err = c.WhyNotCalled(t.Context(), o)
	require.EqualError(t, err, "no kind Unknown of example.com/v1 is served")
}
