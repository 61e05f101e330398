package steps

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kube"
	"github.com/kplan-dev/kplan/steps/internal/tail"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// link is the way to one cluster of a plan. It is safe for concurrent use.
type link struct {
	// name is the plan's; empty for the cluster of the command line.
	name      string
	spec      plan.Cluster
	userAgent string
	// access is what the kubeconfig says, nil while that is in a Secret; holder is
	// the link to the Secret's cluster.
	access *kube.Access
	holder *link

	mu     sync.Mutex
	opened *connection
	flight *flight
	all    []*connection // that were ever opened
}

// connection is what the steps on one cluster share.
type connection struct {
	cluster *kube.Cluster
	client  dynamic.Interface
	// pods is where what pods say is read from.
	pods   *tail.Source
	survey *survey.Survey
	gate   *hold.Gate
}

// flight is an attempt to connect, or to find the cluster still there. Whoever
// wants the same meanwhile waits for it.
type flight struct {
	done  chan struct{} // closed by the one who began it
	conn  *connection
	err   error
	ended bool // its context did, which says nothing of the cluster
}

// connect gives a connection to the cluster, which was just seen to be there.
func (l *link) connect(ctx context.Context) (*connection, error) {
	for {
		f, mine := l.join()
		if mine {
			f.conn, f.err = l.open(ctx)
			f.ended = f.err != nil && ctx.Err() != nil
			l.mu.Lock()
			l.flight = nil
			l.mu.Unlock()
			close(f.done)
			return f.conn, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !f.ended {
			return f.conn, f.err
		}
	}
}

// join gives the flight that is under way, or a new one for the caller to make.
func (l *link) join() (f *flight, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flight != nil {
		return l.flight, false
	}
	l.flight = &flight{done: make(chan struct{})}
	return l.flight, true
}

// now gives the connection if there is one already.
func (l *link) now() *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened
}

// open checks the connection that there is, or makes one. A cluster whose
// kubeconfig is in a Secret may have got another address or authority: it is
// connected to anew when it is not there any more.
func (l *link) open(ctx context.Context) (*connection, error) {
	if c := l.now(); c != nil {
		err := c.cluster.Reach(ctx)
		if err == nil {
			return c, nil
		}
		if l.holder == nil || ctx.Err() != nil {
			return nil, err
		}
	}
	access := l.access
	if l.holder != nil {
		var err error
		if access, err = l.fetch(ctx); err != nil {
			return nil, err
		}
	}
	cluster, err := access.Connect(ctx, l.userAgent)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	pods, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	view := survey.New(client)
	c := &connection{cluster, client, tail.NewSource(pods), view, hold.NewGate(view)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened, l.all = c, append(l.all, c)
	return c, nil
}

// fetch reads the kubeconfig from its Secret.
func (l *link) fetch(ctx context.Context) (*kube.Access, error) {
	ref := *l.spec.KubeconfigSecret
	ref.Key = cmp.Or(ref.Key, "value")
	access, err := kube.FromSecret(ctx, l.name, l.spec.Context, kube.Secret{
		Name: l.holder.describe("Secret", ref),
		Read: func(ctx context.Context) ([]byte, error) { return l.holder.value(ctx, secrets, ref) },
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", l.name, err)
	}
	return access.As(l.name, l.spec.Namespace), nil
}

// namespace is the default one as far as it is known without asking anybody.
func (l *link) namespace() string {
	if c := l.now(); c != nil {
		return c.cluster.Namespace()
	}
	if l.access != nil {
		return l.access.Namespace()
	}
	return cmp.Or(l.spec.Namespace, metav1.NamespaceDefault)
}

// about names the cluster for people.
func (l *link) about() string {
	if l.access != nil {
		return l.access.About()
	}
	return "kubeconfig in " + l.holder.describe("Secret", *l.spec.KubeconfigSecret)
}

// close stops what steps shared.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		c.survey.Close()
	}
}

var (
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// describe names an object of the cluster for people.
func (l *link) describe(kind string, ref plan.KeyRef) string {
	s := kind + " " + cmp.Or(ref.Namespace, l.namespace()) + "/" + ref.Name
	if l.name != "" {
		s += " in cluster " + l.name
	}
	return s
}

// AbsentError says that a cluster does not have what a step needs from it yet.
type AbsentError struct {
	// What is an object, or a part of one, for people.
	What string
	// There is what is there instead; it may be empty.
	There string
}

func (e *AbsentError) Error() string {
	if e.There == "" {
		return e.What + " does not exist"
	}
	return e.What + " does not exist: " + e.There
}

// value reads a key of a Secret or ConfigMap.
func (l *link) value(ctx context.Context, resource schema.GroupVersionResource, ref plan.KeyRef) ([]byte, error) {
	kind := "Secret"
	if resource == configMaps {
		kind = "ConfigMap"
	}
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(ref.Namespace, c.cluster.Namespace())
	what := l.describe(kind, ref)
	u, err := c.client.Resource(resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, &AbsentError{What: what}
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("reading %s: %w", what, context.Cause(ctx))
	case err != nil:
		return nil, kube.Explain(fmt.Errorf("reading %s: %w", what, err), kube.Op{Verb: "get", Resource: resource.GroupResource(), Namespace: namespace})
	}
	for _, field := range []string{"data", "binaryData"} {
		text, found, err := unstructured.NestedString(u.Object, field, ref.Key)
		switch {
		case !found || err != nil:
		case kind == "Secret" || field == "binaryData":
			return base64.StdEncoding.DecodeString(text)
		default:
			return []byte(text), nil
		}
	}
	return nil, &AbsentError{What: fmt.Sprintf("key %q of %s", ref.Key, what), There: keysOf(u)}
}

// keysOf lists what a Secret or ConfigMap has, without the values.
func keysOf(u *unstructured.Unstructured) string {
	var keys []string
	for _, field := range []string{"data", "binaryData"} {
		m, _, _ := unstructured.NestedMap(u.Object, field)
		keys = append(keys, slices.Collect(maps.Keys(m))...)
	}
	if len(keys) == 0 {
		return "it has no data"
	}
	slices.Sort(keys)
	return "it has " + strings.Join(keys, ", ")
}

// links are the ways to the clusters that a plan uses, by the plan's names.
type links struct {
	config Config
	byName map[string]*link
	// path leads to the link that is being made, by the clusters that hold
	// kubeconfigs.
	path []string
}

// newLinks reads the kubeconfigs of all clusters that are used, as far as they
// are on this machine. All faults are told at once; nobody is connected to.
func newLinks(c Config) (map[string]*link, error) {
	ls := &links{config: c, byName: map[string]*link{}}
	var errs []error
	for _, name := range usedClusters(c.Plan) {
		if _, err := ls.link(name); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return ls.byName, ls.checkFlags()
}

// usedClusters are the clusters that the plan's steps work on, and those that they
// ask for the values of variables, their own plan's if they are included.
func usedClusters(p *plan.Plan) []string {
	var used []string
	for _, s := range p.Steps {
		if s.Skip != "" {
			continue
		}
		used = append(used, p.StepCluster(s))
		for _, ask := range s.Deferred() {
			if ask.From != "" && ask.Key.Name != "" { // else a step's, or nobody's: see plan.Options.Unknown
				used = append(used, cmp.Or(ask.Key.Cluster, p.Defaults.Cluster))
			}
		}
	}
	slices.Sort(used)
	return slices.Compact(used)
}

// link makes the link to a cluster, and those to the clusters that hold its
// kubeconfig.
func (ls *links) link(name string) (*link, error) {
	if l := ls.byName[name]; l != nil {
		return l, nil
	}
	if slices.Contains(ls.path, name) {
		return nil, inputError{fmt.Errorf("cluster %s: its kubeconfig is in a Secret of the cluster itself: %s",
			name, strings.Join(append(ls.path, name), " → "))}
	}
	spec, known := ls.config.Plan.Clusters[name]
	if name != "" && !known {
		return nil, inputError{fmt.Errorf("the plan has no cluster %q", name)}
	}
	l := &link{name: name, spec: spec, userAgent: ls.config.UserAgent}
	var err error
	if ref := spec.KubeconfigSecret; ref != nil {
		ls.path = append(ls.path, name)
		l.holder, err = ls.link(cmp.Or(ref.Cluster, ls.config.Plan.Defaults.Cluster))
		ls.path = ls.path[:len(ls.path)-1]
	} else {
		l.access, err = ls.access(name, spec)
	}
	if err != nil {
		return nil, err
	}
	ls.byName[name] = l
	return l, nil
}

// access reads the kubeconfig of a cluster where that is on this machine.
func (ls *links) access(name string, spec plan.Cluster) (*kube.Access, error) {
	var (
		a   *kube.Access
		err error
	)
	switch {
	case spec.Kubeconfig != "":
		a, err = kube.FromFile(ls.config.Plan.Abs(spec.Kubeconfig), spec.Context)
	case spec.Context != "":
		// What else the flags pick from the kubeconfig is for its current context.
		f := genericclioptions.NewConfigFlags(false)
		f.KubeConfig, f.Context = ls.config.Flags.KubeConfig, &spec.Context
		f.Impersonate, f.ImpersonateUID = ls.config.Flags.Impersonate, ls.config.Flags.ImpersonateUID
		f.ImpersonateGroup, f.ImpersonateUserExtra = ls.config.Flags.ImpersonateGroup, ls.config.Flags.ImpersonateUserExtra
		a, err = kube.FromFlags(f)
	default:
		a, err = kube.FromFlags(ls.config.Flags)
	}
	switch {
	case err != nil && name != "":
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	case err != nil:
		return nil, err
	}
	return a.As(name, spec.Namespace), nil
}

// checkFlags refuses flags that pick a cluster when no step works on that: the
// user expects them to do something.
func (ls *links) checkFlags() error {
	for _, l := range ls.byName {
		if l.spec.Context == "" && l.spec.Kubeconfig == "" && l.spec.KubeconfigSecret == nil {
			return nil
		}
	}
	f := ls.config.Flags
	for _, flag := range []struct {
		name  string
		value *string
	}{
		{"--context", f.Context},
		{"--namespace", f.Namespace},
		{"--cluster", f.ClusterName},
		{"--user", f.AuthInfoName},
		{"--server", f.APIServer},
		{"--token", f.BearerToken},
	} {
		if flag.value != nil && *flag.value != "" {
			err := fmt.Errorf("%s has no effect: it is for the cluster of the command line, and no step of the plan works on that", flag.name)
			return inputError{runner.WithHint(err, "leave it out; the plan's clusters say which contexts are used")}
		}
	}
	return nil
}
