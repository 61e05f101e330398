package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/runner"
)

// trial is one tool's install in one phase.
type trial struct {
	phase phase
	tool  string
	// err says why the tool did not converge, or what could not be measured.
	err error
	// lost says why no floor was found. Rarely there is none: as long as
	// kube-proxy has no rule for the Service at all, calls hang instead of failing,
	// and the pod may listen before the first of them is given up.
	lost               error
	attempts, revision int
	took               time.Duration
	floor
	traffic
	// logged and counted are how many calls in vain there were in all, the
	// prober's included, by the audit log and by the API server's metric (-1: it
	// began anew).
	logged, counted int
	// log are the requests of all, and events those of a run of kplan.
	log    []request
	events []runner.Event
}

// events keeps those of a run.
type events struct{ all []runner.Event }

// Observe implements runner.Observer.
func (e *events) Observe(event runner.Event) { e.all = append(e.all, event) }

// try lets a tool install once, in a namespace of its own, and watches it.
func try(ctx context.Context, dir string, lab *ownLab, client kubernetes.Interface, p phase, with tool, delay time.Duration) (t trial) {
	t = trial{phase: p, tool: with.String(), counted: -1}
	ns, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}, metav1.CreateOptions{})
	if err != nil {
		t.err = err
		return t
	}
	j := job{lab: lab, client: client, release: ns.Name, dir: dir, values: filepath.Join(dir, "values.yaml")}
	from, err := t.run(ctx, j, with, delay)
	if k, ok := with.(kplan); ok {
		t.events = k.tell.(*events).all
	}
	// The log is whole when what was left is removed.
	t.err = errors.Join(err, cleanUp(client, ns.Name))
	if p.restarts {
		t.err = errors.Join(t.err, lab.refresh(ctx))
	}
	if t.log, err = auditLog(lab.audit, from); err != nil {
		t.err = errors.Join(t.err, err)
	}
	for _, r := range t.log {
		if r.refused() {
			t.logged++
		}
	}
	t.traffic = trafficOf(t.log, with.agents(), ns.Name, t.floor)
	return t
}

// run gives the audit log's offset at the start.
func (t *trial) run(ctx context.Context, j job, with tool, delay time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*bound, errors.New("the phase took too long"))
	defer cancel()
	if t.phase.before != "" {
		if err := j.write(t.phase.before, t.phase.kind(), 0); err != nil {
			return 0, err
		}
		if _, err := with.install(ctx, j); err != nil {
			return 0, fmt.Errorf("before the upgrade: %w", err)
		}
		// The tool is done when the pod is ready, kube-proxy up to a second later.
		if err := settle(ctx, j, t.phase.kind()); err != nil {
			return 0, fmt.Errorf("before the upgrade: %w", err)
		}
	}
	values := t.phase.values
	if strings.Contains(values, "%[1]s") {
		values = fmt.Sprintf(values, delay)
	}
	if err := j.write(values, t.phase.kind(), t.phase.objects); err != nil {
		return 0, err
	}
	probe, err := newProber(j.lab.config, j.release, t.phase.kind())
	if err != nil {
		return 0, err
	}
	from, err := j.lab.logged()
	if err != nil {
		return 0, err
	}
	before, err := vain(ctx, j.client)
	if err != nil {
		return from, err
	}
	failed := t.watch(ctx, j, with, delay, probe)
	if t.revision, err = j.revision(ctx); err != nil || t.phase.restarts {
		return from, errors.Join(failed, err)
	}
	after, err := vain(ctx, j.client)
	t.counted = after - before
	return from, errors.Join(failed, err)
}

// settle waits until dry-runs have passed for a while.
func settle(ctx context.Context, j job, kind string) error {
	p, err := newProber(j.lab.config, j.release, kind)
	if err != nil {
		return err
	}
	defer p.client.CloseIdleConnections()
	for row := 0; row < 100; row++ {
		if p.send(ctx).verdict != admitted {
			row = 0
		}
		if !sleep(ctx, every) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// watch lets the tool install while the prober looks for the floor.
func (t *trial) watch(ctx context.Context, j job, with tool, delay time.Duration, probe *prober) error {
	var beside sync.WaitGroup
	var probed, happened error
	probing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	beside.Go(func() { t.floor, probed = probe.run(probing) })
	if t.phase.during != nil {
		beside.Go(func() { happened = t.phase.during(probing, j, delay, probe.closed) })
	}
	start := time.Now()
	bounded, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("not done in %v", bound))
	attempts, err := with.install(bounded, j)
	cancel()
	t.attempts, t.took = attempts, time.Since(start)
	if err != nil {
		stop(errors.New("the tool gave up"))
	} else {
		// The prober may be a moment behind, unless the webhook was never away.
		late := time.AfterFunc(3*time.Second, func() { stop(errors.New("the tool is done")) })
		defer late.Stop()
	}
	beside.Wait()
	t.lost = probed
	return errors.Join(err, happened)
}

// wrong says what kplan must not do in any phase.
func (t trial) wrong() []string {
	if t.err != nil {
		return []string{t.err.Error()}
	}
	var all []string
	if t.attempts != 1 || t.revision != t.phase.revision() {
		all = append(all, fmt.Sprintf("it took %d attempts and ended with Helm revision %d", t.attempts, t.revision))
	}
	// Those of the prober that nobody waits for any more may be in one of the two only.
	if off := t.counted - t.logged; t.counted >= 0 && (off > unanswered || off < -unanswered) {
		all = append(all, fmt.Sprintf("the API server counted %d calls in vain, its audit log tells of %d", t.counted, t.logged))
	}
	return all
}

// first and last tell when the held objects were admitted, from the floor on.
func (t trial) first() time.Duration { return t.held[0].Sub(t.at) }
func (t trial) last() time.Duration  { return t.held[len(t.held)-1].Sub(t.at) }

// lastWaited is the last of those that were sent before the floor.
func (t trial) lastWaited() time.Duration { return t.waited[len(t.waited)-1].Sub(t.at) }

// raced tells whether objects were held until a floor that is known.
func (t trial) raced() bool { return t.err == nil && t.lost == nil && len(t.waited) > 0 }

func (t trial) String() string {
	text := fmt.Sprintf("%s, %d attempts, revision %d, %d requests, %d calls in vain", brief(t.took), t.attempts, t.revision, t.requests, t.vain)
	if t.raced() {
		text += fmt.Sprintf(", first of %d admitted %+.1f ms, last %+.1f ms, %d in flight (%d again)",
			len(t.held), ms(t.first()), ms(t.last()), t.flight, t.again)
	}
	text += fmt.Sprintf(", %d with the prober's (metric: %d)", t.logged, t.counted)
	if err := cmp.Or(t.err, t.lost); err != nil {
		text += ": " + err.Error()
	}
	return text
}

// write writes the timeline of a trial, when that was asked for.
func (t trial) write(n int) error {
	if *timelines == "" {
		return nil
	}
	all := []trace{{t.at, "floor"}}
	for _, r := range t.log {
		if strings.HasPrefix(r.Agent, "bench-watch") {
			continue
		}
		agent, _, _ := strings.Cut(r.Agent, " ")
		all = append(all, trace{r.Answered, fmt.Sprintf("%s after %.1f ms: %s %s %s %d %s", agent,
			ms(r.Answered.Sub(r.Received)), r.Verb, r.URI, r.ObjectRef.Name, r.Status.Code, r.Status.Message)})
	}
	for _, e := range t.events {
		all = append(all, traceOf(e))
	}
	name, _, _ := strings.Cut(t.tool, " ")
	return writeTraces(fmt.Sprintf("%s-%02d-%s.txt", t.phase.name, n, strings.TrimSuffix(name, ",")), cmp.Or(t.at, t.closed), all)
}
