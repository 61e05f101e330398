package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// every is the distance of dry-runs.
	every = 10 * time.Millisecond
	// unanswered is how many dry-runs may be on their way at once. Some, because a
	// call that hangs must not hide the moment at which others pass; few, because
	// each can cost the webhook a TLS handshake of its own.
	unanswered = 4
)

// prober sends dry-runs through the API server, each on time whether or not the
// ones before it were answered. It shares nothing with kplan: neither client,
// nor connection, nor the code that tells what an answer means.
type prober struct {
	client *http.Client
	url    string
	body   string
	// closed is closed when the webhook has made a dry-run fail.
	closed chan struct{}
}

// newProber makes one for a kind of the lab's that the webhooks guard.
func newProber(config *rest.Config, namespace, kind string) (*prober, error) {
	config = apart(config, "bench-prober")
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the prober's client: %w", err)
	}
	return &prober{
		client: client,
		closed: make(chan struct{}),
		url: strings.TrimSuffix(config.Host, "/") + "/apis/lab.kplan.dev/v1/namespaces/" + namespace + "/" + strings.ToLower(kind) +
			"s?dryRun=All&fieldManager=bench-prober",
		body: `{"apiVersion":"lab.kplan.dev/v1","kind":"` + kind + `","metadata":{"name":"bench-probe","namespace":"` + namespace + `"},"spec":{}}`,
	}, nil
}

// apart gives a client's configuration connections of its own: client-go shares
// them between clients unless their dial functions differ
// (k8s.io/client-go transport/cache.go).
func apart(config *rest.Config, userAgent string) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	config.Dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	return config
}

// run sends dry-runs until one finds the floor, or ctx ends. It returns when
// none is on its way any more; those that are at the floor are left in peace,
// because ending them would close connections to the webhook that others use.
func (p *prober) run(ctx context.Context) (floor, error) {
	defer p.client.CloseIdleConnections()
	answers := make(chan answer, unanswered)
	tick := time.NewTicker(every)
	defer tick.Stop()
	var f floor
	for out := 0; out > 0 || (f.at.IsZero() && ctx.Err() == nil); {
		select {
		case a := <-answers:
			out--
			was := f.closed
			f.take(a)
			if was.IsZero() && !f.closed.IsZero() {
				close(p.closed)
			}
		case <-tick.C:
			if out < unanswered && f.at.IsZero() && ctx.Err() == nil {
				out++
				go func() { answers <- p.send(ctx) }() // ends with ctx; the loop waits for its answer
			}
		}
	}
	if f.at.IsZero() {
		last := "none"
		if n := len(f.answers); n > 0 {
			last = f.answers[n-1].text
		}
		return f, fmt.Errorf("no floor after %d dry-runs: %w; last answer: %s", len(f.answers), context.Cause(ctx), last)
	}
	return f, nil
}

// send sends one dry-run. Its answer's time is that of the response's head.
func (p *prober) send(ctx context.Context) answer {
	a := answer{sent: time.Now()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(p.body))
	if err != nil {
		a.text = err.Error()
		return a
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	a.arrived = time.Now()
	if err != nil {
		a.text = err.Error()
		return a
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	a.text = string(b)
	switch {
	case resp.StatusCode == http.StatusCreated:
		a.verdict = admitted
	case strings.Contains(a.text, "failed calling webhook"):
		a.verdict = refused
	}
	return a
}
