package bench

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

var rivalRuns = flag.Int("rivals", 2, "how `often` BenchmarkPhases lets each other tool install; 0: not at all")

// bound ends an install that does not converge.
const bound = 90 * time.Second

// phase is one fault of an operator that starts.
type phase struct {
	// name is the benchmark's, about what the table says.
	name, about string
	// delay is how long the fault lasts at least; up to a second comes on top, so
	// that readiness tick and kube-proxy's sync are met at different phases.
	delay time.Duration
	// values are the chart's, with %[1]s for the delay.
	values string
	// objects is how many objects the webhooks guard: Widgets, or Alerts, which
	// Helm sends before the webhook configurations.
	objects int
	alerts  bool
	// before are those of a release that is there already; "" for none.
	before string
	// during is what else happens; nil: nothing. It starts with the install, and
	// closed is closed when the webhook has made a dry-run fail.
	during func(ctx context.Context, j job, delay time.Duration, closed <-chan struct{}) error
	// restarts says that the API server begins to count anew.
	restarts bool
	// crowd says that the bars of many objects hold.
	crowd bool
}

// revision is the one that an install in one attempt ends with.
func (p phase) revision() int {
	if p.before != "" {
		return 2
	}
	return 1
}

// kind is that of the guarded objects.
func (p phase) kind() string {
	if p.alerts {
		return "Alert"
	}
	return "Widget"
}

// The certificate is kept across renders, because a rival that renders anew for
// each attempt would not converge otherwise; only the upgrades bring a new one.
const kept = "certificate: {mode: helm, keep: true}\n"

const made = "certificate: {mode: self}\nlistenDelay: 0s\n"

var phases = []phase{
	{
		name: "listener", about: "late listener (2–3 s)", objects: 10, delay: 2 * time.Second,
		values: kept + "listenDelay: %[1]s\n",
	},
	{
		name: "certificate", about: "late certificate (2–3 s, then injected)", objects: 10, delay: 2 * time.Second,
		values: made + "operator: {certDelay: %[1]s}\n",
	},
	{
		name: "injection", about: "late injection of the CA (3–4 s, pod Ready before)", objects: 10, delay: 3 * time.Second,
		values: made + "operator: {injectDelay: %[1]s, lyingHealth: true}\n",
	},
	{
		name: "lying", about: "lying health (Ready at once, listens after 5–6 s)", objects: 10, delay: 5 * time.Second,
		values: kept + "listenDelay: %[1]s\noperator: {lyingHealth: true}\n",
	},
	{
		name: "crash", about: "crash loop (two crashes, back-off of 10 s)", objects: 10,
		values: kept + "listenDelay: %[1]s\noperator: {crash: 2}\n",
	},
	{
		name: "service", about: "missing Service (created after 4–5 s by another hand)", objects: 10, delay: 4 * time.Second,
		values: kept + "listenDelay: 0s\nwebhook: {service: late}\n",
		during: createService,
	},
	{
		name: "rolling", about: "rolling update in an upgrade (new CA, pod listens after 2–3 s)", objects: 10, delay: 2 * time.Second,
		before: "certificate: {mode: helm}\nlistenDelay: 0s\n",
		values: "certificate: {mode: helm}\nlistenDelay: %[1]s\n",
	},
	{
		name: "order", about: "upgrade with a new CA, guarded kind sorts before the configuration (listens after 3–4 s)", objects: 10,
		alerts: true, delay: 3 * time.Second,
		before: "certificate: {mode: helm}\nstrategy: Recreate\nlistenDelay: 0s\n",
		values: "certificate: {mode: helm}\nstrategy: Recreate\nlistenDelay: %[1]s\n",
	},
	{
		name: "restart", about: "API server restarts during the hold (listener late by 9–10 s)", objects: 10, delay: 9 * time.Second,
		values: kept + "listenDelay: %[1]s\n",
		during: restartServer, restarts: true,
	},
	{
		name: "crowd", about: "200 guarded objects at once (late listener, 2–3 s)", objects: 200, delay: 2 * time.Second,
		values: kept + "listenDelay: %[1]s\n",
		crowd:  true,
	},
}

// createService brings the Service that the configurations of the phase call,
// as another release or an operator's own code would.
func createService(ctx context.Context, j job, delay time.Duration, _ <-chan struct{}) error {
	if !sleep(ctx, delay) {
		return nil
	}
	_, err := j.client.CoreV1().Services(j.release).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "late"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app.kubernetes.io/instance": j.release},
			Ports:    []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("webhook")}},
		},
	}, metav1.CreateOptions{})
	return err
}

// restartServer restarts the API server a second after the hold has begun.
func restartServer(ctx context.Context, j job, _ time.Duration, closed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-closed:
	}
	if !sleep(ctx, time.Second) {
		return nil
	}
	return j.lab.restart(ctx)
}

// BenchmarkPhases installs the lab's race chart with each fault of its operator,
// by kplan and by its rivals on the same lab, one after the other. It fails when
// kplan needs more than one attempt, or leaves more than one new revision, and
// tells which bars were missed.
func BenchmarkPhases(b *testing.B) {
	lab := findOwnLab(b)
	client, err := kubernetes.NewForConfig(apart(lab.config, "bench-watch"))
	require.NoError(b, err)
	start, began := busyTime(), time.Now()
	warm := try(b.Context(), b.TempDir(), lab, client, phases[0], kplan{tell: &events{}}, 0)
	require.NoError(b, warm.err) // the CRDs are there now, as kapp expects
	measured := report{phases: map[string][]trial{}}
	for _, p := range phases {
		b.Run(p.name, func(b *testing.B) {
			// The same delays in every run, and for every tool.
			seed := func() *rand.Rand { return rand.New(rand.NewPCG(30, 10)) }
			next := func(r *rand.Rand) time.Duration { return p.delay + time.Duration(r.Int64N(1000))*time.Millisecond }
			add := func(t trial) {
				measured.phases[p.name] = append(measured.phases[p.name], t)
				fmt.Fprintf(os.Stderr, "%s, %s: %s\n", p.name, t.tool, t)
				require.NoError(b, t.write(len(measured.phases[p.name])))
			}
			delays := seed()
			for b.Loop() {
				t := try(b.Context(), b.TempDir(), lab, client, p, kplan{tell: &events{}}, next(delays))
				add(t)
				for _, wrong := range t.wrong() {
					b.Errorf("install %d: %s", len(measured.phases[p.name]), wrong)
				}
			}
			b.ReportMetric(0, "ns/op")
			for _, r := range rivals() {
				delays := seed()
				for range r.runs {
					t := try(b.Context(), b.TempDir(), lab, client, p, r.tool, next(delays))
					add(t)
					if t.err != nil {
						break // one that does not converge is slow, and says all
					}
				}
			}
		})
	}
	text := aboutPhases(b, lab, start, time.Since(began), "helm", "kapp") + measured.String()
	fmt.Printf("\n%s\n", text)
	if *update && len(measured.phases) == len(phases) {
		require.NoError(b, rewrite("README.md", "phases", text))
	}
}

// rival is a tool that kplan is compared with, and how often it is let.
type rival struct {
	tool tool
	runs int
}

// rivals are those whose command is on the PATH.
func rivals() []rival {
	if *rivalRuns == 0 {
		return nil
	}
	var all []rival
	if _, err := exec.LookPath("helm"); err == nil {
		all = append(all,
			rival{repeated{name: "helm, each 2 s", once: helm("helm"), pause: 2 * time.Second}, *rivalRuns},
			// It sleeps for half a minute at a time: once is enough to see.
			rival{checked(), 1})
		if _, err := exec.LookPath("kapp"); err == nil { // helm renders for it
			all = append(all, rival{kapp{}, *rivalRuns})
		}
	}
	return all
}

// checked is Helm with the check that people write by hand.
func checked() tool {
	return repeated{name: "helm, 30 s and check", once: helm("helm"), pause: 30 * time.Second, most: 3, check: threeLayers}
}
