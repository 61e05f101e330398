package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

// asked notes what a lookahead asks the cluster for.
type asked struct{ lists, reads, requests []string }

// configMaps are the first n of a namespace.
func configMaps(n int) []*resource.Info {
	var all []*resource.Info
	for i := range n {
		all = append(all, &resource.Info{Namespace: "demo", Name: fmt.Sprintf("map-%d", i), Mapping: &meta.RESTMapping{
			Resource:         schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Scope: meta.RESTScopeNamespace,
		}})
	}
	return all
}

// ahead is a lookahead over a cluster that has some objects.
func ahead(there map[string]bool, listing error) (*lookahead, *asked) {
	a := &asked{}
	l := &lookahead{
		next: roundTrip(func(req *http.Request) (*http.Response, error) {
			a.requests = append(a.requests, req.Method+" "+req.URL.RequestURI())
			return answer(req, http.StatusOK, map[string]string{"from": "the cluster"})
		}),
		names: func(_ context.Context, gvr schema.GroupVersionResource, namespace string) (map[string]bool, error) {
			a.lists = append(a.lists, gvr.Resource+" of "+namespace)
			return there, listing
		},
		read: func(_ context.Context, all []*resource.Info) ([]*unstructured.Unstructured, error) {
			found := make([]*unstructured.Unstructured, len(all))
			for i, info := range all {
				a.reads = append(a.reads, info.Name)
				if there[info.Name] {
					found[i] = &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": info.Name}}}
				}
			}
			return found, nil
		},
	}
	return l, a
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// get asks for an object, and gives the answer's code and what is in it.
func get(t *testing.T, l *lookahead, method, name string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://cluster/api/v1/namespaces/demo/configmaps/"+name, http.NoBody)
	require.NoError(t, err)
	resp, err := l.RoundTrip(req)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var body map[string]any
	require.NoError(t, json.Unmarshal(b, &body))
	return resp.StatusCode, body
}

func TestObjectsAreReadAtOnce(t *testing.T) {
	l, a := ahead(map[string]bool{"map-3": true}, nil)
	l.expect(configMaps(12))

	for i := range 12 {
		for range 2 {
			code, body := get(t, l, http.MethodGet, fmt.Sprintf("map-%d", i))
			if i == 3 {
				require.Equal(t, http.StatusOK, code)
				require.Equal(t, "map-3", body["metadata"].(map[string]any)["name"])
				continue
			}
			require.Equal(t, http.StatusNotFound, code)
			require.Equal(t, "NotFound", body["reason"])
			require.Equal(t, fmt.Sprintf(`configmaps "map-%d" not found`, i), body["message"])
		}
	}

	require.Equal(t, asked{lists: []string{"configmaps of demo"}, reads: []string{"map-3"}}, *a)
}

func TestWhatIsNotToBeListedIsRead(t *testing.T) {
	l, a := ahead(map[string]bool{"map-0": true}, errors.New("forbidden"))
	l.expect(configMaps(listFrom))

	code, _ := get(t, l, http.MethodGet, "map-1")

	require.Equal(t, http.StatusNotFound, code)
	require.Len(t, a.reads, listFrom)
	require.Empty(t, a.requests)
}

func TestTheClusterIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		objects int
		do      func(*testing.T, *lookahead)
	}{
		"for few objects": {listFrom - 1, func(*testing.T, *lookahead) {}},
		"for one that was changed": {12, func(t *testing.T, l *lookahead) {
			t.Helper()
			get(t, l, http.MethodGet, "map-0")
			get(t, l, http.MethodPatch, "map-0")
		}},
		"for one that was created": {12, func(t *testing.T, l *lookahead) {
			t.Helper()
			get(t, l, http.MethodGet, "map-0")
			l.wrote(configMaps(1)[0])
		}},
		"for one that was not there, once something was sent": {12, func(t *testing.T, l *lookahead) {
			t.Helper()
			get(t, l, http.MethodGet, "map-1")
			l.wrote(configMaps(2)[1])
		}},
		"for custom resources": {12, func(_ *testing.T, l *lookahead) {
			all := configMaps(12)
			for _, info := range all {
				info.Mapping.Resource.Group = "example.com"
			}
			l.expect(all)
		}},
		"for what nobody said": {12, func(_ *testing.T, l *lookahead) { l.expect(nil) }},
		"when objects cannot be read": {12, func(_ *testing.T, l *lookahead) {
			l.names = func(context.Context, schema.GroupVersionResource, string) (map[string]bool, error) {
				return nil, errMany
			}
			l.read = func(context.Context, []*resource.Info) ([]*unstructured.Unstructured, error) {
				return nil, errors.New("forbidden")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, a := ahead(nil, nil)
			l.expect(configMaps(c.objects))
			c.do(t, l)
			a.requests = nil

			_, body := get(t, l, http.MethodGet, "map-0")

			require.Equal(t, "the cluster", body["from"])
			require.Len(t, a.requests, 1)
		})
	}
}

func TestObjectsAreReadAnewAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a := ahead(map[string]bool{"map-0": true, "map-1": true}, nil)
		l.expect(configMaps(12))
		get(t, l, http.MethodGet, "map-0")
		get(t, l, http.MethodPatch, "map-0")
		time.Sleep(fresh)

		get(t, l, http.MethodGet, "map-1")

		require.Len(t, a.lists, 2)
		require.Len(t, a.requests, 1, "%s", strings.Join(a.requests, ", "))
	})
}
