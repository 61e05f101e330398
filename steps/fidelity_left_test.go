package steps_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// left is what a side has left, as YAML, with what differs by chance taken out.
type left struct{ releases, objects, writes string }

// left reads it.
func (s *side) left(t *testing.T) left {
	t.Helper()
	return left{
		releases: s.text(t, s.releases(t)),
		objects:  s.text(t, s.objects(t)),
		writes:   s.text(t, s.writes.taken()),
	}
}

// text is a value as YAML.
func (s *side) text(t *testing.T, value any) string {
	t.Helper()
	b, err := yaml.Marshal(value)
	require.NoError(t, err)
	return s.plain(string(b))
}

// get reads what the API server has at a path.
func (s *side) get(t *testing.T, path string) map[string]any {
	t.Helper()
	config := s.direct.Config(t)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, http.NoBody)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil // the CustomResourceDefinition is gone
	}
	var out map[string]any
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&out))
	require.Equal(t, http.StatusOK, resp.StatusCode, out)
	return out
}

// releases are the release's Secrets by name, decoded. Times are replaced by their
// rank, so that their order is compared.
func (s *side) releases(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	list := s.get(t, "/api/v1/namespaces/"+s.namespace+"/secrets?labelSelector=owner=helm")
	for _, item := range list["items"].([]any) {
		secret := item.(map[string]any)
		meta := secret["metadata"].(map[string]any)
		labels := withoutOwn(meta["labels"])
		for _, at := range []string{"modifiedAt", "createdAt"} {
			if _, ok := labels[at]; ok {
				labels[at] = "a time"
			}
		}
		out[meta["name"].(string)] = map[string]any{
			"type": secret["type"], "labels": labels, "annotations": withoutOwn(meta["annotations"]),
			"release": decoded(t, secret["data"].(map[string]any)["release"].(string)),
		}
	}
	rank(out)
	return out
}

// decoded is a release as a Secret has it, with the chart's files as text.
func decoded(t *testing.T, data string) map[string]any {
	t.Helper()
	outer, err := base64.StdEncoding.DecodeString(data)
	require.NoError(t, err)
	zipped, err := base64.StdEncoding.DecodeString(string(outer))
	require.NoError(t, err)
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	require.NoError(t, err)
	var release map[string]any
	require.NoError(t, json.NewDecoder(r).Decode(&release))
	info := release["info"].(map[string]any)
	info["description"] = causes.ReplaceAllString(info["description"].(string), "$1: its cause")
	visit(release, func(m map[string]any) {
		for _, key := range []string{"data", "schema"} {
			if text, ok := m[key].(string); ok {
				if b, err := base64.StdEncoding.DecodeString(text); err == nil {
					m[key] = string(b)
				}
			}
		}
		byName(m["templates"])
		byName(m["files"])
	})
	return release
}

// causes are why hooks failed, which kplan says better.
var causes = regexp.MustCompile(`(?s)(failed (?:pre|post)-install|hooks failed): .*`)

// byName sorts files, which the loader reads in no order.
func byName(list any) {
	if files, ok := list.([]any); ok {
		slices.SortFunc(files, func(a, b any) int {
			x, _ := a.(map[string]any)["name"].(string)
			y, _ := b.(map[string]any)["name"].(string)
			return strings.Compare(x, y)
		})
	}
}

// rank replaces all times of releases by their place among them.
func rank(releases map[string]any) {
	found := map[string]bool{}
	visit(releases, func(m map[string]any) {
		for _, v := range m {
			if at, ok := v.(string); ok && times.FindString(at) == at && at != "" {
				found[at] = true
			}
		}
	})
	order := slices.Sorted(maps.Keys(found))
	visit(releases, func(m map[string]any) {
		for k, v := range m {
			if at, ok := v.(string); ok && found[at] {
				m[k] = fmt.Sprintf("time %d of %d", slices.Index(order, at)+1, len(order))
			}
		}
	})
}

// visit calls f with all maps of a value, the outer before the inner.
func visit(value any, f func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		f(v)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			visit(v[k], f)
		}
	case []any:
		for _, item := range v {
			visit(item, f)
		}
	}
}

// withoutOwn are labels or annotations without those that only kplan has, and those
// that controllers write.
func withoutOwn(value any) map[string]any {
	all, _ := value.(map[string]any)
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(k string, _ any) bool {
		return strings.HasPrefix(k, "kplan.dev/") || strings.HasSuffix(k, "controller-uid") || k == "deployment.kubernetes.io/revision"
	})
	return out
}

// objects are those of all kinds that the side has written, by path. What controllers
// made of them is left out.
func (s *side) objects(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, in := range s.writes.collections() {
		list := s.get(t, in)
		if list == nil {
			continue
		}
		for _, item := range list["items"].([]any) {
			object := item.(map[string]any)
			meta := object["metadata"].(map[string]any)
			name := meta["name"].(string)
			own := strings.Contains(in, "/namespaces/") || strings.Contains(name, s.namespace) && name != s.namespace
			if !own || name == "kube-root-ca.crt" || meta["ownerReferences"] != nil || object["type"] == "helm.sh/release.v1" || meta["deletionTimestamp"] != nil {
				continue
			}
			out[in+"/"+name] = normal(object)
		}
	}
	return out
}

// normal is an object without what the API server and controllers give it.
func normal(object map[string]any) map[string]any {
	delete(object, "status")
	meta := object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "selfLink"} {
		delete(meta, field)
	}
	var managed []any
	all, _ := meta["managedFields"].([]any)
	for _, m := range all {
		if entry := m.(map[string]any); entry["manager"] == "helm" {
			delete(entry, "time")
			managed = append(managed, entry)
		}
	}
	meta["managedFields"] = managed
	visit(object, func(m map[string]any) {
		for _, field := range []string{"labels", "annotations", "matchLabels"} {
			if m[field] != nil {
				m[field] = withoutOwn(m[field])
			}
		}
		for _, field := range []string{"clusterIP", "clusterIPs", "nodePort"} {
			if m[field] != nil && m[field] != "None" {
				m[field] = "by the API server"
			}
		}
	})
	return object
}

// writes are the objects that a client created, changed or deleted.
type writes struct {
	mu   sync.Mutex
	done []write
	// paths are the collections that have been written to, and took is how many of done
	// were looked at.
	paths map[string]bool
	took  int
}

// write is one of them.
type write struct{ verb, collection, name string }

// note is a handler of labtest.Lab.Behind.
func (w *writes) note(rw http.ResponseWriter, r *http.Request, next http.Handler) {
	one := write{verb: r.Method, collection: r.URL.Path}
	switch r.Method {
	case http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var o struct {
			Metadata struct{ Name, GenerateName string }
		}
		_ = json.Unmarshal(body, &o)
		one.name = o.Metadata.Name + o.Metadata.GenerateName
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		at := strings.LastIndexByte(r.URL.Path, '/')
		one.collection, one.name = r.URL.Path[:at], r.URL.Path[at+1:]
	}
	if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" && !strings.Contains(one.collection, "authorization.k8s.io/v1/self") {
		w.mu.Lock()
		if w.paths == nil {
			w.paths = map[string]bool{}
		}
		w.paths[one.collection] = true
		release := strings.HasPrefix(one.name, "sh.helm.release.") || one.name == "" // which is sent as protobuf
		if !release {                                                                // they are compared as they are in the end
			w.done = append(w.done, one)
		}
		w.mu.Unlock()
	}
	next.ServeHTTP(rw, r)
}

// collections are the paths of all that was written.
func (w *writes) collections() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.paths))
}

// taken are the writes since it was called last. Objects of one kind are sent side by
// side, and deleted so: those are sorted.
func (w *writes) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	since := w.done[w.took:]
	for len(since) > 0 {
		n := 1
		for n < len(since) && since[n].beside(since[0]) {
			n++
		}
		slices.SortStableFunc(since[:n], func(a, b write) int { return strings.Compare(a.path(), b.path()) })
		for _, one := range since[:n] {
			out = append(out, one.verb+" "+one.path())
		}
		since = since[n:]
	}
	w.took = len(w.done)
	return out
}

// beside reports whether two writes that follow each other may come in either order.
func (w write) beside(other write) bool {
	deletes := func(w write) bool { return w.verb == http.MethodDelete }
	return deletes(w) == deletes(other) && path.Base(w.collection) == path.Base(other.collection)
}

func (w write) path() string { return w.collection + "/" + w.name }

// forget takes back what was written since taken was called last.
func (w *writes) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = w.done[:w.took]
}

// undo deletes what was made outside of the test's namespace.
func (w *writes) undo(config *rest.Config) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return
	}
	defer client.CloseIdleConnections()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.done {
		if one.verb != http.MethodPost || strings.Contains(one.collection, "/namespaces/") {
			continue
		}
		req, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, config.Host+one.collection+"/"+one.name, http.NoBody)
		if err != nil {
			continue
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
		}
	}
}
