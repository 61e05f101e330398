package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// patience bounds one install; cleaning up after it comes on top.
const patience = 35 * time.Second

// BenchmarkAdmission installs the lab's race chart again and again, each time
// with a plan of its own in a namespace of its own, and reports how long after
// the floor kplan's held objects are admitted. It fails when an install needed
// more than one attempt or Helm revision, and, from 30 installs on, when a bar
// is missed.
func BenchmarkAdmission(b *testing.B) {
	lab := labtest.Node(b)
	lab.Operator(b)
	start := busyTime()
	// The same phases in every run: the operator listens 2 to 3 s after its start.
	phase := rand.New(rand.NewPCG(30, 10))
	var done []install
	for b.Loop() {
		delay := 2*time.Second + time.Duration(phase.Int64N(1000))*time.Millisecond
		i, err := measure(b, lab, delay)
		if err != nil {
			b.Fatalf("install %d: %v", len(done)+1, err)
		}
		done = append(done, i)
		fmt.Fprintf(os.Stderr, "install %d: %s\n", len(done), i)
		require.NoError(b, i.write(len(done)))
	}
	t := tabulate(done)
	b.ReportMetric(0, "ns/op") // an install's length says nothing
	t.report(b)
	text := about(b, lab, len(done), start) + t.String()
	fmt.Printf("\n%s\n", text)
	if *update {
		require.NoError(b, rewrite("README.md", "figures", text))
	}
	for _, missed := range t.missed() {
		b.Error(missed)
	}
}

// install is what was measured of one.
type install struct {
	operatorSays
	floor
	// ready and backed are when the pod, and an address of the webhook's Service,
	// were seen to be ready.
	ready, backed time.Time
	// events are all of the run's, released those of requests that were held and
	// then answered.
	events, released []runner.Event
	// attempts and revision are the step's and the release's.
	attempts, revision int
}

func (i install) first() time.Duration { return i.released[0].Time.Sub(i.at) }
func (i install) last() time.Duration  { return i.released[len(i.released)-1].Time.Sub(i.at) }

func (i install) String() string {
	return fmt.Sprintf("listens, pod ready +%s, endpoint +%s, floor +%s, first admitted %+.1f ms, last %+.1f ms, %d held",
		brief(i.ready.Sub(i.listening)), brief(i.backed.Sub(i.ready)), brief(i.at.Sub(i.backed)), ms(i.first()), ms(i.last()), len(i.released))
}

func brief(d time.Duration) string { return d.Round(time.Millisecond).String() }

// measure makes one install and watches it.
func measure(b *testing.B, lab *labtest.Lab, delay time.Duration) (i install, err error) {
	b.Helper()
	ctx, cancel := context.WithTimeoutCause(b.Context(), patience, errors.New("the install took too long"))
	defer cancel()
	// Not kplan's connection, nor the prober's.
	client, err := kubernetes.NewForConfig(apart(lab.Config(b), "bench-watch"))
	if err != nil {
		return i, err
	}
	ns, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}, metav1.CreateOptions{})
	if err != nil {
		return i, err
	}
	defer func() { err = errors.Join(err, cleanUp(client, ns.Name)) }()
	probe, err := newProber(lab.Config(b), ns.Name, "Widget")
	if err != nil {
		return i, err
	}
	var watching sync.WaitGroup
	var errs [3]error
	watching.Go(func() { i.floor, errs[0] = probe.run(ctx) })
	watching.Go(func() { i.ready, errs[1] = podReady(ctx, client, ns.Name) })
	watching.Go(func() { i.backed, errs[2] = endpointReady(ctx, client, ns.Name) })
	err = i.run(ctx, b, lab, ns.Name, delay)
	if err != nil {
		cancel()
	}
	watching.Wait()
	if err = errors.Join(append(errs[:], err)...); err != nil {
		return i, err
	}
	i.operatorSays, err = askOperator(ctx, client, ns.Name)
	return i, err
}

// run runs the plan of one install, as kplan's own command does.
func (i *install) run(ctx context.Context, b *testing.B, lab *labtest.Lab, release string, delay time.Duration) error {
	b.Helper()
	file := filepath.Join(b.TempDir(), "plan.yaml")
	text := fmt.Sprintf(onePlan, filepath.Join(labtest.Charts(), "race"), release, delay)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	p, err := load.File(file, load.Options{})
	if err != nil {
		return err
	}
	s, err := steps.New(ctx, steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-bench"})
	if err != nil {
		return err
	}
	defer s.Close()
	r := &runner.Runner{Resolve: s.Resolve, Observers: []runner.Observer{i}}
	done, err := r.Run(ctx, p)
	if err != nil {
		return err
	}
	i.released = of(i.events, runner.TypeReleased)
	step := done.Step("race")
	i.attempts, i.revision = step.Attempt, step.Revision
	switch {
	case i.attempts != 1 || i.revision != 1:
		return fmt.Errorf("it took %d attempts and Helm revision %d", i.attempts, i.revision)
	case len(i.released) == 0:
		return errors.New("no request was held: there was no race")
	}
	return nil
}

// Observe keeps the run's events.
func (i *install) Observe(e runner.Event) { i.events = append(i.events, e) }

const onePlan = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: race}
steps:
- name: race
  helm:
    chart: %s
    release: %[2]s
    namespace: %[2]s
    wait: ready
    values:
      listenDelay: %[3]s
      certificate: {mode: helm}
`
