package main

import (
	"bytes"
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// killed is one plan with hooks, a held webhook and applied objects, and what ends
// its first run.
type killed struct {
	t      *testing.T
	lab    *labtest.Lab
	ns     string
	folder string
	hooks  *hookJobs
}

// TestKilledAtAnyMoment kills runs of a plan at moments that a seed gives, and runs
// the plan again: it ends deployed, and no hook ran twice. KPLAN_KILLS is how often,
// and KPLAN_SEED the seed.
func TestKilledAtAnyMoment(t *testing.T) {
	kills := number(t, "KPLAN_KILLS", 5)
	seed := number(t, "KPLAN_SEED", int(time.Now().UnixNano()%1_000_000))
	t.Logf("KPLAN_SEED=%d", seed)
	labtest.Node(t).Operator(t)
	for i := range kills + (kills+4)/5 {
		chance := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			m := moment{
				write: 1 + chance.IntN(mostWrites), done: chance.IntN(2) == 0,
				by: syscall.SIGKILL,
			}
			if chance.IntN(3) == 0 {
				m.later = time.Duration(chance.Int64N(int64(3 * time.Second)))
			}
			if i >= kills { // these end a run well; the plan goes on all the same
				m.by = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[chance.IntN(2)]
			}
			k := newKilled(t)
			k.end(m)
			k.succeeds()
			k.check()
		})
	}
}

// mostWrites is how many writes a run sends: some end without being killed.
const mostWrites = 45

// moment is when a run is ended, and how.
type moment struct {
	write int           // the write that it is ended at, counted from 1
	done  bool          // after the API server has done it, and before the run hears of it
	later time.Duration // so long after it, with which done means nothing
	by    syscall.Signal
}

func number(t *testing.T, env string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(env), strconv.Itoa(otherwise)))
	require.NoError(t, err)
	return n
}

func newKilled(t *testing.T) *killed {
	t.Helper()
	lab := labtest.Node(t)
	k := &killed{t: t, lab: lab, ns: lab.Namespace(t), folder: t.TempDir()}
	require.NoError(t, os.CopyFS(k.folder, os.DirFS(filepath.Join("testdata", "kill"))))
	charts := filepath.Join(k.folder, "chart", "charts")
	require.NoError(t, os.Mkdir(charts, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(labtest.Charts(), "race"), filepath.Join(charts, "race")))
	k.hooks = watchHooks(t, lab, k.ns)
	api, rbac := lab.Clientset(t).AdmissionregistrationV1(), lab.Clientset(t).RbacV1()
	t.Cleanup(func() {
		_ = api.ValidatingWebhookConfigurations().Delete(context.Background(), k.ns+"-validate", metav1.DeleteOptions{})
		_ = api.MutatingWebhookConfigurations().Delete(context.Background(), k.ns+"-mutate", metav1.DeleteOptions{})
		_ = rbac.ClusterRoles().Delete(context.Background(), k.ns+"-"+k.ns, metav1.DeleteOptions{})
		_ = rbac.ClusterRoleBindings().Delete(context.Background(), k.ns+"-"+k.ns, metav1.DeleteOptions{})
	})
	return k
}

// command is a run of the plan on a lab.
func (k *killed) command(lab *labtest.Lab) (*exec.Cmd, *bytes.Buffer) {
	cmd := command(k.t, "run", filepath.Join(k.folder, "plan.yaml"), "--progress", "plain", "--set", "ns="+k.ns)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.Kubeconfig)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// succeeds runs the plan to its end.
func (k *killed) succeeds() {
	k.t.Helper()
	cmd, out := k.command(k.lab)
	err := cmd.Run()
	k.t.Logf("run to its end:\n%s", out)
	require.NoError(k.t, err)
}

// end runs the plan, and ends the run.
func (k *killed) end(m moment) {
	var (
		sent    atomic.Int64
		process atomic.Pointer[os.Process]
		at      atomic.Pointer[string]
	)
	proxy := k.lab.Behind(k.t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != "" || sent.Add(1) != int64(m.write) {
			next.ServeHTTP(w, r)
			return
		}
		text := r.Method + " " + r.URL.Path
		at.Store(&text)
		end := func() { _ = process.Load().Signal(m.by) }
		switch {
		case m.later > 0:
			time.AfterFunc(m.later, end)
		case !m.done:
			end()
			if m.by == syscall.SIGKILL {
				panic(http.ErrAbortHandler)
			}
		default:
			w = &ending{w, end}
		}
		next.ServeHTTP(w, r)
	})
	cmd, out := k.command(proxy)
	require.NoError(k.t, cmd.Start())
	process.Store(cmd.Process)
	err := cmd.Wait()
	if at.Load() == nil {
		at.Store(new(string))
	}
	k.t.Logf("%+v of %d: %s (%v)\n%s", m, sent.Load(), *at.Load(), err, out)
}

// ending calls end when there is an answer, before that is handed on.
type ending struct {
	http.ResponseWriter
	end func()
}

func (e *ending) WriteHeader(code int) {
	e.end()
	e.ResponseWriter.WriteHeader(code)
}

// check looks at what the runs made.
func (k *killed) check() {
	t := k.t
	t.Helper()
	for _, hook := range []string{"before", "before-gone", "after", "after-kept"} {
		assert.Equal(t, 1, k.hooks.count(hook), "how often hook %s ran", hook)
	}
	client := k.lab.Clientset(t)
	jobs, err := client.BatchV1().Jobs(k.ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	for _, j := range jobs.Items {
		names = append(names, j.Name)
	}
	assert.ElementsMatch(t, []string{"before", "after-kept"}, names, "Jobs that are there")

	records, err := client.CoreV1().Secrets(k.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	require.NoError(t, err)
	last, deployed := 0, 0
	for _, r := range records.Items {
		n, err := strconv.Atoi(r.Labels["version"])
		require.NoError(t, err)
		last = max(last, n)
		switch status := r.Labels["status"]; status {
		case "deployed":
			assert.Zero(t, deployed, "two revisions are deployed")
			deployed = n
		default:
			assert.Contains(t, []string{"failed", "superseded"}, status, "status of revision %d", n)
		}
	}
	assert.Equal(t, last, deployed, "the newest revision is deployed")
	dyn, err := dynamic.NewForConfig(k.lab.Config(t))
	require.NoError(t, err)
	for resource, want := range map[schema.GroupVersionResource]int{
		{Group: "lab.kplan.dev", Version: "v1", Resource: "gadgets"}: 2,
		{Group: "lab.kplan.dev", Version: "v1", Resource: "widgets"}: 3,
		{Version: "v1", Resource: "configmaps"}:                      4, // with the cluster's own
		{Version: "v1", Resource: "services"}:                        2,
		{Group: "apps", Version: "v1", Resource: "deployments"}:      1,
	} {
		all, err := dyn.Resource(resource).Namespace(k.ns).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, all.Items, want, resource.Resource)
	}
	lease, err := client.CoordinationV1().Leases(k.ns).Get(t.Context(), "kplan-killed", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, *lease.Spec.HolderIdentity, "the lock is held by nobody")
}

// hookJobs are the Jobs that were ever made in a namespace.
type hookJobs struct {
	mu   sync.Mutex
	uids map[string]map[string]bool
}

// watchHooks counts the Jobs of a namespace from now on.
func watchHooks(t *testing.T, lab *labtest.Lab, ns string) *hookJobs {
	t.Helper()
	h := &hookJobs{uids: map[string]map[string]bool{}}
	w, err := lab.Clientset(t).BatchV1().Jobs(ns).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { // ends with the watch
		defer close(ended)
		for event := range w.ResultChan() {
			if job, ok := event.Object.(*batchv1.Job); ok {
				h.mu.Lock()
				if h.uids[job.Name] == nil {
					h.uids[job.Name] = map[string]bool{}
				}
				h.uids[job.Name][string(job.UID)] = true
				h.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { w.Stop(); <-ended })
	return h
}

// count is how many Jobs of a name there were.
func (h *hookJobs) count(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.uids[name])
}
