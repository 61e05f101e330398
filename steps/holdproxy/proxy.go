// Package holdproxy is what stands behind kplan hold: a proxy in front of the
// clusters of a kubeconfig that holds the requests of programs which know nothing
// of kplan.
//
// It does not hold a request itself, nor serve HTTP: package webhook/proxy does.
package holdproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/webhook/proxy"
)

// Config says which clusters a Proxy stands in front of, and how it holds.
type Config struct {
	// Flags are kubectl's own. Each context of the kubeconfig that they name gets
	// an entrance; what else they say is for the context that they pick.
	Flags *genericclioptions.ConfigFlags
	// OnlyContext leaves out the other contexts.
	OnlyContext bool
	// Listen is the loopback address to listen at; empty: any port of 127.0.0.1.
	Listen string
	// HoldTimeout and MisconfiguredTimeout bound a hold, as those of a plan.
	HoldTimeout, MisconfiguredTimeout time.Duration
	// UserAgent names the program in the API server's audit log where a request is
	// not the client's.
	UserAgent string
}

// Proxy holds the requests of programs that know nothing of kplan: they reach the
// clusters of a kubeconfig through it. It is made for one run.
type Proxy struct {
	config    Config
	server    *proxy.Server
	entrances []*entrance
	current   string
	// attempt is what the entrances report to; nil before the action runs.
	attempt atomic.Pointer[attempt]
}

// attempt is the run of the action.
type attempt struct {
	ctx      context.Context //nolint:containedctx // the entrances are opened by requests, which end before it
	reporter runner.Reporter
}

// New reads the kubeconfig and listens. Nobody is connected to before a client
// asks for it.
func New(c Config) (*Proxy, error) {
	contexts, current, err := cluster.Contexts(c.Flags, c.OnlyContext)
	if err != nil {
		return nil, err
	}
	server, err := proxy.Listen(cmp.Or(c.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, cluster.UserError(err)
	}
	p := &Proxy{config: c, server: server, current: current}
	for i, kubeContext := range contexts {
		e := &entrance{proxy: p, context: kubeContext}
		e.url = server.Handle(fmt.Sprintf("/c%d", i), e)
		p.entrances = append(p.entrances, e)
	}
	return p, nil
}

// Token is what clients show.
func (p *Proxy) Token() string { return p.server.Token() }

// Address is where the proxy listens, as host:port.
func (p *Proxy) Address() string { return p.server.Address() }

// About names for people what the proxy stands in front of.
func (p *Proxy) About() string {
	if p.current != "" {
		return "context " + p.current
	}
	if len(p.entrances) == 1 && p.entrances[0].context.Name == "" {
		return p.entrances[0].context.Server
	}
	return fmt.Sprintf("%d contexts", len(p.entrances))
}

// Kubeconfig is one for clients, with the same contexts and no credentials but the
// proxy's token.
func (p *Proxy) Kubeconfig() ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.CurrentContext = p.current
	for _, e := range p.entrances {
		name := e.name()
		if p.current == "" && e.context.Name == "" {
			config.CurrentContext = name
		}
		cluster := clientcmdapi.NewCluster()
		cluster.Server, cluster.CertificateAuthorityData = e.url, p.server.CA()
		cluster.DisableCompression = e.context.DisableCompression
		// Who names a cluster means its address, and whose credentials are used goes
		// by the address here.
		named := e.context.Cluster
		if named == "" || p.shared(named) {
			named = strings.Trim(e.context.Cluster+"@"+name, "@")
		}
		config.Clusters[named] = cluster
		kubeContext := clientcmdapi.NewContext()
		kubeContext.Cluster, kubeContext.AuthInfo, kubeContext.Namespace = named, proxyUser, e.context.Namespace
		config.Contexts[name] = kubeContext
	}
	config.AuthInfos[proxyUser] = &clientcmdapi.AuthInfo{Token: p.server.Token()}
	return clientcmd.Write(*config)
}

// proxyUser is the name of the only user of the kubeconfig for clients. With those
// of the original, whoever picks another one would not get it, and not know.
const proxyUser = "kplan-hold"

// shared reports whether several contexts are of one cluster.
func (p *Proxy) shared(cluster string) bool {
	n := 0
	for _, e := range p.entrances {
		if e.context.Cluster == cluster {
			n++
		}
	}
	return n > 1
}

// Entrance is where one context is reached.
type Entrance struct {
	// URL is the proxy's, Server the API server's own address.
	URL, Server string
}

// Entrances are all of them.
func (p *Proxy) Entrances() []Entrance {
	all := make([]Entrance, len(p.entrances))
	for i, e := range p.entrances {
		all[i] = Entrance{e.url, e.context.Server}
	}
	return all
}

// Action is the one step of a run: it serves as long as run takes, whatever becomes
// of its context, and reports what is held. The proxy is closed then.
func (p *Proxy) Action(run func(runner.Reporter) error) runner.Action {
	return action{p, run}
}

type action struct {
	proxy *Proxy
	run   func(runner.Reporter) error
}

// Run implements runner.Action.
func (a action) Run(ctx context.Context, r runner.Reporter) error {
	p := a.proxy
	p.attempt.Store(&attempt{ctx, r})
	served := make(chan error, 1)
	go func() { served <- p.server.Serve() }()
	err := a.run(r)
	if e := p.Close(); e != nil {
		err = errors.Join(err, e)
	}
	if e := <-served; e != nil {
		err = errors.Join(err, fmt.Errorf("serving: %w", e))
	}
	return err
}

// Close ends all requests, and what the entrances share.
func (p *Proxy) Close() error {
	err := p.server.Close()
	for _, e := range p.entrances {
		e.close()
	}
	return err
}
