package steps_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

var silent = log.New(io.Discard, "", 0)

var (
	matrixSeed = flag.Uint64("matrix-seed", 14, "seed of the moments of the fault matrix")
	wholeTable = flag.Bool("matrix", false, "let each fault of the matrix strike at each of its moments, and not at one of them in turn")
)

// moments is how many moments of a step each fault strikes at: its first request, and
// one in each of the parts after that.
const moments = 3

// operation is something that a step does, a column of the matrix.
type operation struct {
	name string
	// step is the step's kind and body; NS and DIR are the test's.
	step string
	// before brings the namespace to where the step begins, over a way without faults;
	// it may be nil. during goes on while the step runs.
	before func(t *testing.T, m *matrix, ns string)
	during func(ctx context.Context, maps corev1client.ConfigMapInterface)
	// state is the one that the step ends in; "" is any that is good:
	// a fault may keep what is waited for from being so at once.
	state runner.State
	// check looks at what the step left.
	check func(t *testing.T, m *matrix, ns string)
}

// An API server that is away for half a minute, in the middle of steps of all kinds,
// fails none of them.
func TestStepsOutlastAnOutage(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	ns := m.lab.Namespace(t)
	f := newFront(t, m.lab)
	out, err := m.steps(t.Context(), t, f, ns, strings.Join([]string{
		"- name: helm\n  " + fmt.Sprintf(matrixHelm, "one"),
		"- name: apply\n  " + fmt.Sprintf(matrixApply, "one"),
		"- name: wait\n  wait: {resource: configmap/m11, namespace: NS, for: create}",
		"- name: webhook\n  webhook: {configuration: GUARDED, stable: 3}",
	}, "\n"), func() {
		f.arm(20, fault{strike: first(func(f *front, _ http.ResponseWriter, _ *http.Request) {
			f.listener.away(30 * time.Second)
			panic(http.ErrAbortHandler)
		})})
	})
	require.NoError(t, err)
	require.True(t, f.wasHit())
	for _, s := range out.Steps() {
		require.Equal(t, 1, s.Attempt, s.Name)
	}
	m.requireRelease(t, ns, "one", release.StatusDeployed)
	m.requireMaps(t, ns, "one")
}

// matrix is what all cases share.
type matrix struct {
	lab *labtest.Lab
	dir string
	// guarded is a namespace with a webhook that answers.
	guarded string
}

const (
	matrixHelm  = "helm: {chart: DIR/chart, release: NS, namespace: NS, wait: none, values: {data: {is: %s}}}"
	matrixApply = "apply: {files: [DIR/%s.yaml], namespace: NS}"
)

var operations = []operation{
	{
		name: "helm install", step: fmt.Sprintf(matrixHelm, "one"), state: runner.StateSucceeded,
		check: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.requireRelease(t, ns, "one", release.StatusDeployed)
		},
	},
	{
		name: "helm upgrade", step: fmt.Sprintf(matrixHelm, "two"), state: runner.StateSucceeded,
		before: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.must(t, ns, fmt.Sprintf(matrixHelm, "one"))
		},
		check: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.requireRelease(t, ns, "two", release.StatusSuperseded, release.StatusDeployed)
		},
	},
	{
		name: "helm unchanged", step: fmt.Sprintf(matrixHelm, "one"), state: runner.StateUnchanged,
		before: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.must(t, ns, fmt.Sprintf(matrixHelm, "one"))
		},
		check: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.requireRelease(t, ns, "one", release.StatusDeployed)
		},
	},
	{
		name: "apply new", step: fmt.Sprintf(matrixApply, "one"), state: runner.StateSucceeded,
		check: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.requireMaps(t, ns, "one")
		},
	},
	{
		name: "apply changed", step: fmt.Sprintf(matrixApply, "two"), state: runner.StateSucceeded,
		before: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.must(t, ns, fmt.Sprintf(matrixApply, "one"))
		},
		check: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.requireMaps(t, ns, "two")
		},
	},
	{
		name: "wait", step: "wait: {resource: configmap/go, namespace: NS, for: create}",
		during: func(ctx context.Context, maps corev1client.ConfigMapInterface) {
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
				_, _ = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "go"}}, metav1.CreateOptions{})
			}
		},
	},
	{name: "webhook", step: "webhook: {configuration: GUARDED}"},
	{
		name: "delete", step: "delete: {files: [DIR/one.yaml], namespace: NS}", state: runner.StateSucceeded,
		before: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.must(t, ns, fmt.Sprintf(matrixApply, "one"))
		},
		check: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.requireNone(t, ns)
		},
	},
	{
		name: "delete release", step: "delete: {release: NS, namespace: NS}", state: runner.StateSucceeded,
		before: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.must(t, ns, fmt.Sprintf(matrixHelm, "one"))
		},
		check: func(t *testing.T, m *matrix, ns string) {
			t.Helper()
			m.requireNone(t, ns)
		},
	},
}

// Whatever goes wrong between kplan and the API server while a step is under way,
// the step ends as if nothing had, in one attempt: nothing is lost, nothing is done
// twice, and no goroutine is left.
func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	var ran, struck atomic.Int32
	t.Run("cases", func(t *testing.T) {
		for column, op := range operations {
			t.Run(op.name, func(t *testing.T) {
				t.Parallel()
				clean, _ := m.run(t, op, -1, fault{})
				require.Positive(t, clean)
				for row, what := range faults {
					source := rand.New(rand.NewPCG(*matrixSeed, uint64(row)))
					for part := range moments {
						at := part * clean / moments
						if part > 0 {
							at += source.IntN(max(1, clean/moments))
						}
						if !*wholeTable && part != (row+column+int(*matrixSeed))%moments {
							continue
						}
						t.Run(fmt.Sprintf("%s at request %d of %d", what.name, at, clean), func(t *testing.T) {
							ran.Add(1)
							_, hit := m.run(t, op, at, what)
							if hit {
								struck.Add(1)
							}
							require.True(t, hit || part > 0 || what.watches, "the fault struck no request")
						})
					}
				}
			})
		}
	})
	t.Logf("%d cases in which a fault struck, of %d; seed %d", struck.Load(), ran.Load(), *matrixSeed)
	if all := len(operations) * len(faults) * moments; int(ran.Load()) == all { // and not some, by -run
		require.GreaterOrEqual(t, int(struck.Load()), 200)
	}
}

// The table of the cases in the documentation is of the matrix as it is.
func TestFaultMatrixTable(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| fault |")
	for _, op := range operations {
		table.WriteString(" " + op.name + " |")
	}
	table.WriteString("\n|---|" + strings.Repeat("---|", len(operations)) + "\n")
	for _, what := range faults {
		table.WriteString("| " + what.name + " |" + strings.Repeat(fmt.Sprintf(" %d |", moments), len(operations)) + "\n")
	}
	doc, err := os.ReadFile("../docs/explanation/reliability.md")
	require.NoError(t, err)
	require.Contains(t, string(doc), "\n"+table.String()+"\n", "docs/explanation/reliability.md wants this table")
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	m := &matrix{lab: labtest.ControlPlane(t), dir: t.TempDir()}
	hooks := map[string]string{"hooks.yaml": hookOf("ConfigMap", "before", "pre-install", "") + hookOf("ConfigMap", "after", "post-install,post-upgrade", "")}
	require.NoError(t, os.Rename(chartOf(t, hooks), filepath.Join(m.dir, "chart")))
	for _, data := range []string{"one", "two"} {
		var text strings.Builder
		for i := range 12 {
			fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: m%d, labels: {matrix: m}}, data: {is: %s}}\n", i, data)
		}
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, data+".yaml"), []byte(text.String()), 0o600))
	}
	m.guarded = m.lab.Namespace(t)
	w := newWebhooks(t)
	w.configure(t, m.lab, m.guarded, m.guarded, hook{name: "v." + m.guarded + ".example.io", does: "allow"})
	w.awaitCall(t, m.lab, m.guarded)
	return m
}

// run does an operation with a fault from a request on, -1 for none. It returns how
// many requests were made, and whether the fault struck.
func (m *matrix) run(t *testing.T, op operation, at int, what fault) (requests int, struck bool) {
	t.Helper()
	ns := m.lab.Namespace(t)
	f := newFront(t, m.lab)
	if op.before != nil {
		op.before(t, m, ns)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	if op.during != nil {
		go op.during(ctx, m.lab.Clientset(t).CoreV1().ConfigMaps(ns)) // ends with ctx
	}
	var out *runner.Execution
	var err error
	pprof.Do(ctx, pprof.Labels("case", ns), func(ctx context.Context) {
		out, err = m.step(ctx, t, f, ns, op.step, func() { f.arm(at, what) })
	})
	require.NoError(t, err)
	if op.state != "" {
		require.Equal(t, op.state, out.Step("s").State, out.Step("s").Message)
	}
	require.Equal(t, 1, out.Step("s").Attempt)
	if op.check != nil {
		op.check(t, m, ns)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, n := range f.made {
		require.Equal(t, 1, n, "%s was made more than once", name)
	}
	f.listener.cut()
	requireNoneLeft(t, ns)
	return f.count, f.struck
}

// step runs a plan of one step; ready is called when the cluster was reached.
func (m *matrix) step(ctx context.Context, t *testing.T, f *front, ns, step string, ready func()) (*runner.Execution, error) {
	t.Helper()
	return m.steps(ctx, t, f, ns, "- name: s\n  timeout: 3m\n  "+step, ready)
}

// steps is step for several.
func (m *matrix) steps(ctx context.Context, t *testing.T, f *front, ns, list string, ready func()) (*runner.Execution, error) {
	t.Helper()
	text := "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: matrix}\nsteps:\n" + list + "\n"
	text = strings.NewReplacer("NS", ns, "DIR", m.dir, "GUARDED", m.guarded).Replace(text)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	p, err := load.File(file, load.Options{})
	require.NoError(t, err)
	s, err := steps.New(ctx, steps.Config{Plan: p, Flags: f.Flags(), UserAgent: "kplan-test"})
	require.NoError(t, err)
	defer s.Close()
	ready()
	r := &runner.Runner{Resolve: s.Resolve, ReadInputs: s.ReadInputs, Redact: p.Sensitive.Text}
	return r.Run(ctx, p)
}

// must runs a step without faults.
func (m *matrix) must(t *testing.T, ns, step string) {
	t.Helper()
	_, err := m.step(t.Context(), t, &front{Lab: m.lab}, ns, step, func() {})
	require.NoError(t, err)
}

func (m *matrix) requireRelease(t *testing.T, ns, data string, want ...release.Status) {
	t.Helper()
	found := statuses(t, m.lab, ns)
	var got []release.Status
	for _, revision := range slices.Sorted(maps.Keys(found)) {
		got = append(got, found[revision])
	}
	require.Equal(t, want, got)
	require.Equal(t, data, settings(t, m.lab, ns)["is"])
}

func (m *matrix) requireMaps(t *testing.T, ns, data string) {
	t.Helper()
	list, err := m.lab.Clientset(t).CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "matrix=m"})
	require.NoError(t, err)
	require.Len(t, list.Items, 12)
	for _, o := range list.Items {
		require.Equal(t, data, o.Data["is"], o.Name)
	}
}

// requireNone fails the test if a deletion has left something: objects, or the record of
// the release.
func (m *matrix) requireNone(t *testing.T, ns string) {
	t.Helper()
	core := m.lab.Clientset(t).CoreV1()
	left, err := core.ConfigMaps(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
	require.NoError(t, err)
	require.Empty(t, left.Items)
	records, err := core.Secrets(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, records.Items)
}

// requireNoneLeft fails the test if goroutines of a case outlive it.
func requireNoneLeft(t *testing.T, label string) {
	t.Helper()
	var stacks bytes.Buffer
	if !assertEventually(func() bool {
		stacks.Reset()
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		return !strings.Contains(stacks.String(), `"case":"`+label+`"`)
	}) {
		var left []string
		for one := range strings.SplitSeq(stacks.String(), "\n\n") {
			if strings.Contains(one, `"case":"`+label+`"`) {
				left = append(left, one)
			}
		}
		require.Fail(t, "goroutines are left", strings.Join(left, "\n\n"))
	}
}

func assertEventually(is func() bool) bool {
	for range 200 {
		if is() {
			return true
		}
		time.Sleep(25 * time.Millisecond)
	}
	return false
}
