// Package inquiry asks the clusters of a rollout before it runs: whether they answer and
// take the credentials, of which version they are, and what would keep the plan from its
// work there. What many say is told once.
//
// It writes nothing but reviews of rights, and does not decide what may run.
package inquiry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/inventory"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/runner"
)

// What holds where a Config does not say.
const (
	DefaultAtOnce = 20
	DefaultWithin = 10 * time.Second
)

// Config says how clusters are asked.
type Config struct {
	// Kubeconfig reads the kubeconfig of a cluster.
	Kubeconfig func(context.Context, fleet.Cluster) ([]byte, error)
	// Look tells what would keep the plan from its work on a cluster; nil asks only whether
	// the cluster answers.
	Look func(ctx context.Context, c fleet.Cluster, within time.Duration, found func(finding.Finding)) error
	// UserAgent names the program in the API server's audit log.
	UserAgent string
	// AtOnce is how many clusters are asked side by side, and Within how long each has.
	AtOnce int
	Within time.Duration
}

// Answer is what one cluster has to say.
type Answer struct {
	Cluster fleet.Cluster
	// Version is that of its Kubernetes, such as v1.34.1; "" when it did not answer.
	Version string
	// Class and Err say why it cannot be asked, or that the plan is wrong with its values.
	Class fleet.Class
	Err   error
	// Findings are what would keep the plan from its work.
	Findings []finding.Finding
}

// Good reports whether nothing speaks against the plan there.
func (a *Answer) Good() bool {
	return a.Err == nil && !slices.ContainsFunc(a.Findings, func(f finding.Finding) bool { return f.Severity == finding.Error })
}

// Ask asks clusters side by side, and returns their answers in the same order. progress,
// which may be nil, hears how many have answered, from one goroutine at a time. The error is
// that of ctx.
func (c Config) Ask(ctx context.Context, clusters []fleet.Cluster, progress func(done int)) ([]Answer, error) {
	var (
		answers = make([]Answer, len(clusters))
		group   errgroup.Group
		mu      sync.Mutex // guards done
		done    int
	)
	group.SetLimit(cmp.Or(c.AtOnce, DefaultAtOnce))
	for i, cluster := range clusters {
		group.Go(func() error { // ends after Within, or with ctx
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			answers[i] = c.ask(ctx, cluster)
			mu.Lock()
			defer mu.Unlock()
			if done++; progress != nil {
				progress(done)
			}
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answers, err
}

// ask asks one cluster.
func (c Config) ask(ctx context.Context, cluster fleet.Cluster) Answer {
	within := cmp.Or(c.Within, DefaultWithin)
	late := fmt.Errorf("no answer within %s", within)
	ctx, cancel := context.WithTimeoutCause(ctx, within, late)
	defer cancel()
	a := Answer{Cluster: cluster}
	a.Version, a.Class, a.Err = c.version(ctx, cluster)
	if a.Err != nil && context.Cause(ctx) == late { //nolint:errorlint // it is this very value
		a.Class, a.Err = fleet.Unreachable, runner.WithHint(late, "--within gives it longer; else see whether a firewall drops what is sent to it")
	}
	if a.Err != nil || c.Look == nil {
		return a
	}
	begun := time.Now()
	deadline, ok := ctx.Deadline()
	if ok { // the look ends first, so that it can tell what it does not know
		within = deadline.Sub(begun) * 9 / 10
	}
	if err := c.Look(ctx, cluster, within, func(f finding.Finding) { a.Findings = append(a.Findings, f) }); err != nil {
		a.Class, a.Err = fleet.StepFailed, err
		if _, bad := errors.AsType[document.Diagnostics](err); bad {
			a.Class = fleet.BadPlan
		}
	}
	finding.Sort(a.Findings, nil)
	return a
}

// version asks for the version of a cluster, with its credentials.
func (c Config) version(ctx context.Context, cluster fleet.Cluster) (string, fleet.Class, error) {
	text, err := c.Kubeconfig(ctx, cluster)
	if err != nil {
		return "", inventory.ClassOf(err), err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return "", fleet.Refused, errors.New("its kubeconfig cannot be used") // the error may repeat what is in it
	}
	config.UserAgent, config.QPS, config.WarningHandler = c.UserAgent, -1, rest.NoWarnings{}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return "", fleet.Refused, fmt.Errorf("its kubeconfig cannot be used: %w", err)
	}
	defer closeIdle(client)
	answer, err := client.Get().AbsPath("/version").Do(ctx).Raw()
	switch {
	case apierrors.IsUnauthorized(err):
		return "", fleet.Refused, runner.WithHint(errors.New("it does not accept the credentials in its kubeconfig"), "they were revoked or have expired: whatever makes the kubeconfig must renew it")
	case apierrors.IsForbidden(err): // it does know who asks
		return "", "", nil
	case err != nil:
		return "", fleet.Unreachable, inventory.Unanswered(err)
	}
	var v version.Info
	if json.Unmarshal(answer, &v) != nil || v.GitVersion == "" {
		return "", fleet.Unreachable, errors.New("what answers is no API server of Kubernetes")
	}
	return v.GitVersion, "", nil
}

// closeIdle ends the connections of a client: each cluster has its own.
func closeIdle(c *rest.RESTClient) {
	if c.Client != nil {
		c.Client.CloseIdleConnections()
	}
}
