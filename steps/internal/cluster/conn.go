package cluster

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/podlog"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Conn is the way to one cluster of a plan. It is safe for concurrent use.
type Conn struct {
	// name is the plan's; empty for the cluster of the command line.
	name      string
	spec      plan.Cluster
	userAgent string
	// access is what the kubeconfig says, nil while that is in a Secret; holder is
	// the link to the Secret's cluster.
	access *Access
	holder *Conn

	mu     sync.Mutex
	opened *Shared
	flight *flight
	all    []*Shared // that were ever opened
}

// flight is an attempt to connect, or to find the cluster still there. Whoever
// wants the same meanwhile waits for it.
type flight struct {
	done  chan struct{} // closed by the one who began it
	conn  *Shared
	err   error
	ended bool // its context did, which says nothing of the cluster
}

// Connect gives a connection to the cluster, which was just seen to be there.
func (l *Conn) Connect(ctx context.Context) (*Shared, error) {
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
func (l *Conn) join() (f *flight, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flight != nil {
		return l.flight, false
	}
	l.flight = &flight{done: make(chan struct{})}
	return l.flight, true
}

// Now gives the connection if there is one already.
func (l *Conn) Now() *Shared {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened
}

// open checks the connection that there is, or makes one. A cluster whose
// kubeconfig is in a Secret may have got another address or authority: it is
// connected to anew when it is not there any more.
func (l *Conn) open(ctx context.Context) (*Shared, error) {
	if c := l.Now(); c != nil {
		err := c.Cluster.Reach(ctx)
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
	c := &Shared{cluster, client, podlog.NewSource(pods), view, hold.NewGate(view)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened, l.all = c, append(l.all, c)
	return c, nil
}

// fetch reads the kubeconfig from its Secret.
func (l *Conn) fetch(ctx context.Context) (*Access, error) {
	ref := *l.spec.KubeconfigSecret
	ref.Key = cmp.Or(ref.Key, "value")
	access, err := FromSecret(ctx, l.name, l.spec.Context, Secret{
		Name: l.holder.describe("Secret", ref),
		Read: func(ctx context.Context) ([]byte, error) { return l.holder.Value(ctx, Secrets, ref) },
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", l.name, err)
	}
	return access.As(l.name, l.spec.Namespace), nil
}

// Namespace is the default one as far as it is known without asking anybody.
func (l *Conn) Namespace() string {
	if c := l.Now(); c != nil {
		return c.Cluster.Namespace()
	}
	if l.access != nil {
		return l.access.Namespace()
	}
	return cmp.Or(l.spec.Namespace, metav1.NamespaceDefault)
}

// About names the cluster for people.
func (l *Conn) About() string {
	if l.access != nil {
		return l.access.About()
	}
	return "kubeconfig in " + l.holder.describe("Secret", *l.spec.KubeconfigSecret)
}

// Close stops what steps shared.
func (l *Conn) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		c.Survey.Close()
	}
}
