// Command operator is the lab's stand-in for a real Kubernetes operator: one
// static binary that shows, on demand, the start-up behaviour that makes
// installs race with admission webhooks. By flags it listens late, makes its
// certificate itself and injects it later, says it is ready while its webhook
// is not, crashes on its first starts, answers calls wrongly for a while, and
// reconciles a few kinds. With --job it does what a chart's hook Job does, and
// exits. Every flag can be given by environment too: --listen-delay is
// LAB_LISTEN_DELAY.
//
// It does not validate anything useful, elect a leader, or keep state beyond
// its crash counter, and it is no example of how to write an operator.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	cfg, err := parseConfig(os.Args[1:], os.LookupEnv)
	if errors.Is(err, flag.ErrHelp) {
		fs := new(config).flagSet()
		fs.SetOutput(os.Stdout)
		fs.PrintDefaults()
		return
	}
	if err != nil {
		log.Error("bad flags", "error", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err = run(ctx, cfg, log)
	stop()
	if err != nil {
		log.Error("operator stops", "error", err)
		os.Exit(1)
	}
}

// run starts the parts that cfg names and returns when ctx ends or one of them
// fails. Each part is one goroutine that ends with ctx; run waits for the
// first failure only, because the process ends right after it.
func run(ctx context.Context, cfg config, log *slog.Logger) error {
	if err := crash(cfg.StateDir, cfg.Crash, cfg.CrashAfter); err != nil {
		return err
	}
	var client dynamic.Interface
	if cfg.needsCluster() {
		var err error
		if client, err = inClusterClient(); err != nil {
			return err
		}
	}
	op := newOperator(cfg, client, log)
	if cfg.Job != "" {
		if err := sleep(ctx, cfg.JobDelay); err != nil {
			return err
		}
		return jobs[cfg.Job](ctx, op)
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := func(part string, f func(context.Context) error) {
		go func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", part, err))
			}
		}()
	}
	start("health", op.serveHealth)
	start("certificate", certSource{op}.run)
	for name, part := range map[string]func(context.Context) error{
		partWebhook:    op.serveWebhook,
		partCerts:      op.injectOwn,
		partController: func(ctx context.Context) error { return newController(op).run(ctx) },
		partCAInjector: func(ctx context.Context) error { return injector{op}.keep(ctx, injector{op}.annotated) },
	} {
		if cfg.Run.has(name) {
			start(name, part)
		}
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// operator is the state that the parts share.
type operator struct {
	cfg     config
	client  dynamic.Interface // nil when no part talks to the cluster
	secrets secrets
	log     *slog.Logger
	calls   *counter
	certs   *certHolder
	fault   *fault
	state   progress
}

func newOperator(cfg config, client dynamic.Interface, log *slog.Logger) *operator {
	return &operator{
		cfg:     cfg,
		client:  client,
		secrets: secrets{client},
		log:     log,
		calls:   &counter{count: map[call]int{}},
		certs:   newCertHolder(),
		fault:   &fault{answer: cfg.Answer, lasting: cfg.AnswerFor},
	}
}

// injectOwn injects the CA of the certificate that is served once that is there, and
// keeps it injected.
func (o *operator) injectOwn(ctx context.Context) error {
	if err := o.certs.wait(ctx); err != nil {
		return err
	}
	i := injector{o}
	return i.keep(ctx, func(ctx context.Context) error {
		err := i.own(ctx, *o.certs.ca.Load())
		o.state.injected.Store(err == nil)
		return err
	})
}

// serveHealth answers probes and /metrics over plain HTTP.
func (o *operator) serveHealth(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.cfg.HealthAddress)
	if err != nil {
		return err
	}
	return o.serve(ctx, l, o.healthHandler())
}

// serveWebhook waits as long as the flags say and then serves the webhooks.
func (o *operator) serveWebhook(ctx context.Context) error {
	if !o.cfg.ListenEarly {
		if err := o.certs.wait(ctx); err != nil {
			return err
		}
	}
	if err := sleep(ctx, o.cfg.ListenDelay); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.cfg.Listen)
	if err != nil {
		return err
	}
	o.state.listeningSince.Store(time.Now().UnixNano())
	o.fault.begin()
	o.log.Info("webhook listens", "address", l.Addr().String())
	return o.serve(ctx, o.secure(l), o.webhookHandler())
}

func (o *operator) secure(l net.Listener) net.Listener {
	return &faultyListener{Listener: l, fault: o.fault, tls: &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Like controller-runtime, whose webhook servers speak HTTP/1.1 only.
		NextProtos:     []string{"http/1.1"},
		GetCertificate: o.certs.get,
	}}
}

// serve serves until ctx ends; it then closes every connection at once, as a
// pod that is killed does.
func (o *operator) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          slog.NewLogLogger(o.log.Handler(), slog.LevelInfo),
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func inClusterClient() (dynamic.Interface, error) {
	rc, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("read the pod's service account: %w", err)
	}
	rc.QPS = -1 // the API server has priority and fairness
	return dynamic.NewForConfig(rc)
}

// crash counts this start in dir and fails while the count is at most n. The
// folder must outlive the container: an emptyDir does, since the kubelet
// restarts a container inside the same pod.
func crash(dir string, n int, after time.Duration) error {
	if n <= 0 {
		return nil
	}
	file := filepath.Join(dir, "starts")
	count := 1
	text, err := os.ReadFile(file)
	switch {
	case err == nil:
		old, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		count = old + 1
	case !os.IsNotExist(err):
		return err
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(count)), 0o600); err != nil {
		return err
	}
	if count <= n {
		time.Sleep(after)
		return fmt.Errorf("crash %d of %d, as asked by --crash", count, n)
	}
	return nil
}
