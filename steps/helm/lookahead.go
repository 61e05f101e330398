package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/metadata"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/webhook/hold"
)

const (
	// fresh is how long objects count as they were read.
	fresh = 2 * time.Second
	// readAhead is how long reading them all at once may take; after that each is asked for.
	readAhead = 2 * time.Second
	// pages is how many pages of names are read of a kind and namespace: where there are
	// more, most are not the release's, and each of its objects is asked for.
	pages = 4
)

// lookahead is a transport that reads all objects of a revision at once when Helm asks
// for the first, and answers the rest from that: Helm asks for one after the other,
// before it sends anything, and twice for each that it changes. An object that was
// written, or was read some seconds ago, is not answered for; nor is one that was not
// there, once something was written that may have brought it. Custom resources are not
// read ahead: a webhook that converts them may hold the read.
type lookahead struct {
	next http.RoundTripper
	// names lists what there is, and read reads objects of which it is known that they
	// are there.
	names func(context.Context, schema.GroupVersionResource, string) (map[string]bool, error)
	read  func(context.Context, []*resource.Info) ([]*unstructured.Unstructured, error)

	mu sync.Mutex
	// expected are the objects that are read with the first one of them, by path; turn
	// counts how often that was said.
	expected map[string]*resource.Info
	turn     int
	// written says that something was since then.
	written bool
	// reading is held by who reads them.
	reading sync.Mutex
	known   map[string]known
}

// newLookahead makes one over a session and its HTTP client.
func newLookahead(s *cluster.Session, client *http.Client) (*lookahead, error) {
	names, err := metadata.NewForConfigAndClient(s.Config, client)
	if err != nil {
		return nil, fmt.Errorf("making the step's client of metadata: %w", err)
	}
	return &lookahead{next: client.Transport, names: namesOf(names), read: func(ctx context.Context, all []*resource.Info) ([]*unstructured.Unstructured, error) {
		return reader{s}.live(ctx, all)
	}}, nil
}

// known is an object as it was read; nil for one that is not there.
type known struct {
	object *unstructured.Unstructured
	read   time.Time
}

// expect says which objects Helm will ask for. What was known before is forgotten.
func (l *lookahead) expect(resources []*resource.Info) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	l.expected, l.known, l.written = map[string]*resource.Info{}, map[string]known{}, false
	for _, info := range resources {
		if info.Name != "" && !kinds.Custom(info.Mapping.Resource.Group) {
			l.expected[pathOf(info)] = info
		}
	}
	if len(l.expected) < listFrom {
		l.expected = map[string]*resource.Info{}
	}
}

// pathOf is an object's path in the API.
func pathOf(info *resource.Info) string {
	gvr := info.Mapping.Resource
	path := "/apis/" + gvr.Group
	if gvr.Group == "" {
		path = "/api"
	}
	path += "/" + gvr.Version
	if info.Mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		path += "/namespaces/" + info.Namespace
	}
	return path + "/" + gvr.Resource + "/" + info.Name
}

// RoundTrip implements http.RoundTripper.
func (l *lookahead) RoundTrip(req *http.Request) (*http.Response, error) {
	info := l.of(req)
	if info == nil {
		return l.next.RoundTrip(req)
	}
	k, ok := l.lookup(req.Context(), info)
	if !ok {
		return l.next.RoundTrip(req)
	}
	if k.object == nil {
		status := apierrors.NewNotFound(info.Mapping.Resource.GroupResource(), info.Name).Status()
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		return answer(req, http.StatusNotFound, status)
	}
	return answer(req, http.StatusOK, k.object)
}

// of is the expected object that a request reads; nil for other requests. One that
// writes an object ends what is known of it.
func (l *lookahead) of(req *http.Request) *resource.Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.Method == http.MethodGet && req.URL.RawQuery == "" {
		return l.expected[req.URL.Path]
	}
	if req.Method != http.MethodGet {
		l.written = true
	}
	delete(l.expected, req.URL.Path)
	delete(l.known, req.URL.Path)
	return nil
}

// wrote ends what is known of an object.
func (l *lookahead) wrote(info *resource.Info) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = true
	delete(l.expected, pathOf(info))
	delete(l.known, pathOf(info))
}

// lookAhead lets Helm ask for objects that it will send, or for what is there of them,
// by the transport that reads them all at once.
func (c *client) lookAhead(resources engine.ResourceList) error {
	c.ahead.expect(resources)
	clients := map[schema.GroupVersion]resource.RESTClient{}
	for _, info := range resources {
		version := info.Mapping.GroupVersionKind.GroupVersion()
		if clients[version] == nil {
			client, err := c.clientOf(c.ctx, version)
			if err != nil {
				return err
			}
			clients[version] = client
		}
		info.Client = clients[version]
	}
	return nil
}

// lookup gives what is known of an object, and reads all that are expected if need be.
func (l *lookahead) lookup(ctx context.Context, info *resource.Info) (known, bool) {
	if k, ok := l.knows(info); ok {
		return k, true
	}
	l.reading.Lock()
	defer l.reading.Unlock()
	if k, ok := l.knows(info); ok { // somebody else read it meanwhile
		return k, true
	}
	l.mu.Lock()
	all, turn := slices.Collect(maps.Values(l.expected)), l.turn
	l.mu.Unlock()
	// What holds this read does not hold the object that is sent.
	ctx, cancel := context.WithTimeoutCause(hold.WithNotify(ctx, func(hold.Notice) {}), readAhead, errSlow)
	defer cancel()
	found := l.all(ctx, all)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn != turn {
		return known{}, false // other objects are expected by now
	}
	for path, k := range found {
		if l.expected[path] != nil { // not written meanwhile
			l.known[path] = k
		}
	}
	if _, ok := found[pathOf(info)]; !ok {
		l.expected = map[string]*resource.Info{} // they are not to be read together
	}
	return l.fresh(info)
}

func (l *lookahead) knows(info *resource.Info) (known, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fresh(info)
}

// fresh gives what is known of an object and still counts; the mutex is held.
func (l *lookahead) fresh(info *resource.Info) (known, bool) {
	k, ok := l.known[pathOf(info)]
	return k, ok && time.Since(k.read) < fresh && (k.object != nil || !l.written)
}

// all reads objects, and finds out which are not there. Those that cannot be read this
// way it leaves out.
func (l *lookahead) all(ctx context.Context, resources []*resource.Info) map[string]known {
	now, found := time.Now(), map[string]known{}
	var (
		mu    sync.Mutex
		there []*resource.Info
		lists errgroup.Group
	)
	lists.SetLimit(lookups)
	for p, group := range byPlace(resources) {
		lists.Go(func() error {
			var names map[string]bool
			err := errFew
			if len(group) >= listFrom {
				names, err = l.names(ctx, p.GroupVersionResource, p.namespace)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, i := range group {
				if info := resources[i]; err != nil || names[info.Name] {
					there = append(there, info)
				} else {
					found[pathOf(info)] = known{read: now}
				}
			}
			return nil
		})
	}
	_ = lists.Wait()
	objects, err := l.read(ctx, there)
	if err != nil {
		return found
	}
	for i, info := range there {
		found[pathOf(info)] = known{object: objects[i], read: now}
	}
	return found
}

var (
	errFew  = errors.New("there are too few to list")
	errMany = errors.New("there are too many to list")
	errSlow = fmt.Errorf("reading all objects took longer than %s", readAhead)
)

// namesOf lists the names of the objects of a kind and namespace, all of them.
func namesOf(client metadata.Interface) func(context.Context, schema.GroupVersionResource, string) (map[string]bool, error) {
	return func(ctx context.Context, gvr schema.GroupVersionResource, namespace string) (map[string]bool, error) {
		names := map[string]bool{}
		options := metav1.ListOptions{Limit: page}
		for range pages {
			list, err := client.Resource(gvr).Namespace(namespace).List(ctx, options)
			if err != nil {
				return nil, err
			}
			for _, o := range list.Items {
				names[o.Name] = true
			}
			if options.Continue = list.Continue; options.Continue == "" {
				return names, nil
			}
		}
		return nil, errMany
	}
}

// answer is what the API server would send.
func answer(req *http.Request, code int, body any) (*http.Response, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(b)), ContentLength: int64(len(b)),
	}, nil
}
