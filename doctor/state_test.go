package doctor_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/doctor"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/finding"
)

var update = flag.Bool("update", false, "write what is found into testdata/states")

// Each file of testdata/states is a broken state of a cluster:
//
//	-- broken.yaml --   its objects, with status where no controller writes it
//	-- delete.yaml --   those of them that are deleted then, and stay for their finalizers
//	-- findings.txt --  what doctor finds of them, all of it
//	-- remedy.yaml --   the objects that mend it, if any
//	-- remove.yaml --   the objects whose removal mends it, if any
//	-- later.txt --     how long after that it is examined; at once without
//	-- manager.txt --   the field manager of the objects; kubectl without
//
// Objects have NAMESPACE as their namespace, or in their names, {{CA name}} for
// certificates (expand), and need no uid in their ownerReferences. What is found has TIME
// for times. The state is made on a
// real API server, examined, mended, and examined again: nothing is found then.
func TestStates(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	define(t, lab)
	files, err := filepath.Glob("testdata/states/*.txtar")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(textOf(a, "findings.txt")) {
			if fields := strings.Fields(line); len(fields) > 1 && !strings.HasPrefix(line, " ") {
				seen[fields[1]] = true
			}
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			newState(t, lab).try(t, file, a)
		})
	}
	for _, check := range doctor.Checks() {
		require.True(t, seen[check.ID], "no state of testdata/states has a finding of %s", check.ID)
	}
}

// define makes the definitions of operators that the states have objects of, if need be.
// They stay: other tests may use them at the same time.
func define(t *testing.T, lab *labtest.Lab) {
	t.Helper()
	b, err := os.ReadFile("testdata/definitions.yaml")
	require.NoError(t, err)
	s := newState(t, lab)
	s.objects(t, string(b), func(at dynamic.ResourceInterface, u *unstructured.Unstructured) {
		_, err := at.Create(t.Context(), u, metav1.CreateOptions{})
		require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	})
}

// try makes the state of a file, has it examined, mends it, and has it examined again.
func (s *state) try(t *testing.T, file string, a *txtar.Archive) {
	t.Helper()
	s.begin(t, a)
	if *update {
		time.Sleep(10 * time.Second) // until controllers have acted
		put(a, "findings.txt", s.found(t))
		require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o600))
	} else {
		s.finds(t, textOf(a, "findings.txt"))
	}
	s.remove(t, textOf(a, "remove.yaml"))
	s.send(t, textOf(a, "remedy.yaml"))
	s.finds(t, "")
}

// begin makes the state.
func (s *state) begin(t *testing.T, a *txtar.Archive) {
	t.Helper()
	if text := strings.TrimSpace(textOf(a, "later.txt")); text != "" {
		var err error
		s.later, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	s.manager = strings.TrimSpace(textOf(a, "manager.txt"))
	s.send(t, textOf(a, "broken.yaml"))
	s.remove(t, textOf(a, "delete.yaml"))
}

func textOf(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func put(a *txtar.Archive, name, text string) {
	for i := range a.Files {
		if a.Files[i].Name == name {
			a.Files[i].Data = []byte(text)
			return
		}
	}
	a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)})
}

// state is a part of a cluster that one test has to itself: a namespace, and what has
// its name within its own.
type state struct {
	lab       *labtest.Lab
	namespace string
	client    dynamic.Interface
	// later is how long after it was made the state is examined.
	later time.Duration
	// manager is the field manager of its objects; "" is kubectl.
	manager string
	// hide is what has another name each time; it is POD in what is found.
	hide *regexp.Regexp
	// uids are those of what was sent, by Kind/name.
	uids map[string]types.UID
	// made are the objects to remove in the end.
	made map[string]func()
	// authorities and certificates are those that expand has made.
	authorities  map[string]*authority
	certificates map[string]string
}

func newState(t *testing.T, lab *labtest.Lab) *state {
	t.Helper()
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	s := &state{lab: lab, namespace: lab.Namespace(t), client: client, uids: map[string]types.UID{}, made: map[string]func(){}}
	s.authorities, s.certificates = map[string]*authority{}, map[string]string{}
	t.Cleanup(func() {
		for remove := range maps.Values(s.made) {
			remove()
		}
	})
	return s
}

// objects reads objects, and where each is.
func (s *state) objects(t *testing.T, text string, do func(dynamic.ResourceInterface, *unstructured.Unstructured)) {
	t.Helper()
	text = s.expand(t, strings.NewReplacer("NAMESPACE", s.namespace, "IMAGE", labtest.OperatorImage).Replace(text))
	for doc := range strings.SplitSeq(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		b, err := yaml.YAMLToJSON([]byte(doc))
		require.NoError(t, err)
		if string(b) == "null" {
			continue
		}
		require.NoError(t, u.UnmarshalJSON(b))
		mapping := s.mapping(t, u)
		var at dynamic.ResourceInterface = s.client.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			u.SetNamespace(cmp.Or(u.GetNamespace(), s.namespace))
			at = s.client.Resource(mapping.Resource).Namespace(u.GetNamespace())
		}
		do(at, u)
	}
}

// mapping waits for kinds whose definition was just sent.
func (s *state) mapping(t *testing.T, u *unstructured.Unstructured) *meta.RESTMapping {
	t.Helper()
	gvk := u.GroupVersionKind()
	var mapping *meta.RESTMapping
	require.Eventually(t, func() bool {
		client := discovery.NewDiscoveryClientForConfigOrDie(s.lab.Config(t))
		groups, err := restmapper.GetAPIGroupResources(client)
		if err != nil {
			return false
		}
		mapping, err = restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(gvk.GroupKind(), gvk.Version)
		return err == nil
	}, 30*time.Second, 100*time.Millisecond, "%s is not served", gvk)
	return mapping
}

// send makes or changes objects, and their status.
func (s *state) send(t *testing.T, text string) {
	t.Helper()
	s.objects(t, text, func(at dynamic.ResourceInterface, u *unstructured.Unstructured) {
		force := true
		owners := u.GetOwnerReferences()
		for i := range owners {
			owners[i].UID = s.uids[owners[i].Kind+"/"+owners[i].Name]
		}
		u.SetOwnerReferences(owners)
		b, err := json.Marshal(u)
		require.NoError(t, err)
		sent, err := at.Patch(t.Context(), u.GetName(), types.ApplyPatchType, b, metav1.PatchOptions{FieldManager: cmp.Or(s.manager, "kubectl"), Force: &force})
		for deadline := time.Now().Add(30 * time.Second); apierrors.IsInternalError(err) && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
			// A webhook that was removed is asked for a moment.
			sent, err = at.Patch(t.Context(), u.GetName(), types.ApplyPatchType, b, metav1.PatchOptions{FieldManager: cmp.Or(s.manager, "kubectl"), Force: &force})
		}
		require.NoError(t, err)
		s.uids[u.GetKind()+"/"+u.GetName()] = sent.GetUID()
		if u.Object["status"] != nil {
			_, err = at.Patch(t.Context(), u.GetName(), types.ApplyPatchType, b, metav1.PatchOptions{FieldManager: cmp.Or(s.manager, "kubectl"), Force: &force}, "status")
			require.NoError(t, err)
		}
		s.made[u.GetKind()+"/"+u.GetNamespace()+"/"+u.GetName()] = func() {
			ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, errors.New("an object of a test is left behind"))
			defer cancel()
			_, _ = at.Patch(ctx, u.GetName(), types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
			_ = at.Delete(ctx, u.GetName(), metav1.DeleteOptions{})
		}
	})
}

func (s *state) remove(t *testing.T, text string) {
	t.Helper()
	s.objects(t, text, func(at dynamic.ResourceInterface, u *unstructured.Unstructured) {
		err := at.Delete(t.Context(), u.GetName(), metav1.DeleteOptions{})
		require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	})
}

// found is what doctor finds of the state, as findings.txt has it.
func (s *state) found(t *testing.T) string {
	t.Helper()
	config := s.lab.Config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return reader{t, next} })
	c, err := doctor.New(config)
	require.NoError(t, err)
	c.Now = c.Now.Add(s.later)
	r, err := doctor.Examine(t.Context(), c, doctor.Checks())
	require.NoError(t, err)
	var lines strings.Builder
	for _, f := range r.Findings {
		if !s.owns(f) {
			continue
		}
		fmt.Fprintf(&lines, "%s %s %s: %s\n", f.Severity, f.Rule, f.Object, f.Message)
		for _, e := range f.Evidence {
			fmt.Fprintf(&lines, "  read: %s %s: %s\n", e.Object, e.Field, e.Value)
		}
		fmt.Fprintf(&lines, "  hint: %s\n", f.Hint)
	}
	text := lines.String()
	if s.hide != nil {
		text = s.hide.ReplaceAllString(text, "POD")
	}
	return timeOf.ReplaceAllString(strings.ReplaceAll(text, s.namespace, "NAMESPACE"), "TIME")
}

// timeOf is a time of a finding.
var timeOf = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z`)

// reader lets nothing but reads through.
type reader struct {
	t    *testing.T
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r reader) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		r.t.Errorf("an examination writes: %s %s", req.Method, req.URL.Path)
	}
	return r.next.RoundTrip(req)
}

// owns reports whether a finding is about an object of the state. Names of namespaces of
// tests have the same length: none is the start of another one.
func (s *state) owns(f finding.Finding) bool {
	return strings.Contains(f.Object, s.namespace)
}

// finds waits until doctor finds what is wanted: controllers, and the API server's
// own view, follow what was sent.
func (s *state) finds(t *testing.T, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if got = s.found(t); got == want {
			return
		}
	}
	require.Equal(t, want, got)
}
