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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
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
	args   []string
	hooks  *hookObjects
}

// TestKilledAtAnyMoment kills runs of a plan at moments that a seed gives, and runs
// the plan again: it ends deployed, and no hook ran twice. KPLAN_KILLS is how often,
// and KPLAN_SEED the seed.
func TestKilledAtAnyMoment(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	kills := number(t, "KPLAN_KILLS", 2)
	atMoments(t, kills, 62, 3*time.Second, func(t *testing.T, m moment) {
		t.Helper()
		k := newKilled(t, lab, "kill")
		charts := filepath.Join(k.folder, "chart", "charts")
		require.NoError(t, os.Mkdir(charts, 0o755))
		require.NoError(t, os.Symlink(filepath.Join(labtest.Charts(), "race"), filepath.Join(charts, "race")))
		k.cleanRace()
		if kills > 10 {
			k.args = []string{"--set", "more=true"}
		}
		k.end(m)
		k.succeeds()
		k.check(1)
		k.checkRace()
	})
}

// TestUpgradeKilledAtAnyMoment does the same with upgrades, of a chart that takes no
// pods and is different in each render.
func TestUpgradeKilledAtAnyMoment(t *testing.T) {
	lab := labtest.ControlPlane(t)
	atMoments(t, number(t, "KPLAN_KILLS", 6), 32, time.Second, func(t *testing.T, m moment) {
		t.Helper()
		k := newKilled(t, lab, "kill-upgrade")
		k.succeeds()
		k.check(1)
		k.args = []string{"--set", "level=2"}
		k.end(m)
		k.succeeds()
		k.check(2)
		maps := k.lab.Clientset(t).CoreV1().ConfigMaps(k.ns)
		for _, name := range []string{"changed", "more", "only-in-2", "hook-before", "hook-after"} {
			found, err := maps.Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, "2", found.Data["level"], name)
		}
		_, err := maps.Get(t.Context(), "only-in-1", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), "what the upgrade removes: %v", err)
	})
}

// atMoments does f at moments that a seed gives: so many kills, and some signals.
func atMoments(t *testing.T, kills, writes int, latest time.Duration, f func(*testing.T, moment)) {
	t.Helper()
	seed := number(t, "KPLAN_SEED", int(time.Now().UnixNano()%1_000_000))
	t.Logf("KPLAN_SEED=%d", seed)
	for i := range kills + (kills+4)/5 {
		chance := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		m := moment{write: 1 + chance.IntN(writes), done: chance.IntN(2) == 0, by: syscall.SIGKILL}
		if chance.IntN(3) == 0 {
			m.later = time.Duration(chance.Int64N(int64(latest)))
		}
		if i >= kills { // these end a run well; the plan goes on all the same
			m.by = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[chance.IntN(2)]
		}
		t.Run(strconv.Itoa(i), func(t *testing.T) { t.Parallel(); f(t, m) })
	}
}

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

func newKilled(t *testing.T, lab *labtest.Lab, folder string) *killed {
	t.Helper()
	k := &killed{t: t, lab: lab, ns: lab.Namespace(t), folder: t.TempDir()}
	require.NoError(t, os.CopyFS(k.folder, os.DirFS(filepath.Join("testdata", folder))))
	k.hooks = watchHooks(t, lab, k.ns)
	return k
}

// cleanRace removes at the end what chart race has outside of the namespace.
func (k *killed) cleanRace() {
	api, rbac := k.lab.Clientset(k.t).AdmissionregistrationV1(), k.lab.Clientset(k.t).RbacV1()
	k.t.Cleanup(func() {
		_ = api.ValidatingWebhookConfigurations().Delete(context.Background(), k.ns+"-validate", metav1.DeleteOptions{})
		_ = api.MutatingWebhookConfigurations().Delete(context.Background(), k.ns+"-mutate", metav1.DeleteOptions{})
		_ = rbac.ClusterRoles().Delete(context.Background(), k.ns+"-"+k.ns, metav1.DeleteOptions{})
		_ = rbac.ClusterRoleBindings().Delete(context.Background(), k.ns+"-"+k.ns, metav1.DeleteOptions{})
	})
}

// command is a run of the plan on a lab.
func (k *killed) command(lab *labtest.Lab) (*exec.Cmd, *bytes.Buffer) {
	cmd := command(k.t, "run", filepath.Join(k.folder, "plan.yaml"), "--progress", "plain", "--set", "ns="+k.ns)
	cmd.Args = append(cmd.Args, k.args...)
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

// check looks at what the runs made that are over: each hook ran so often, one
// revision is deployed, and the lock was given back.
func (k *killed) check(times int) {
	t := k.t
	t.Helper()
	hooks := k.hooks.counts()
	assert.NotEmpty(t, hooks)
	for hook, ran := range hooks {
		assert.Equal(t, times, ran, "how often hook %s ran", hook)
	}
	client := k.lab.Clientset(t)
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
	lease, err := client.CoordinationV1().Leases(k.ns).Get(t.Context(), "kplan-killed", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, *lease.Spec.HolderIdentity, "the lock is held by nobody")
}

// checkRace looks whether chart race and what is applied beside it is there, once.
func (k *killed) checkRace() {
	t := k.t
	t.Helper()
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
}

// hookObjects are the objects of hooks that were ever made in a namespace.
type hookObjects struct {
	mu   sync.Mutex
	uids map[string]map[types.UID]bool
}

// watchHooks counts the hooks in a namespace from now on: Jobs, and ConfigMaps whose
// names say so.
func watchHooks(t *testing.T, lab *labtest.Lab, ns string) *hookObjects {
	t.Helper()
	h := &hookObjects{uids: map[string]map[types.UID]bool{}}
	client := lab.Clientset(t)
	jobs, err := client.BatchV1().Jobs(ns).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	configs, err := client.CoreV1().ConfigMaps(ns).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var ended sync.WaitGroup
	for _, w := range []apiwatch.Interface{jobs, configs} {
		ended.Go(func() { // ends with the watch
			for event := range w.ResultChan() {
				h.saw(event.Object)
			}
		})
	}
	t.Cleanup(func() { jobs.Stop(); configs.Stop(); ended.Wait() })
	return h
}

func (h *hookObjects) saw(object runtime.Object) {
	m, err := meta.Accessor(object)
	if _, job := object.(*batchv1.Job); err != nil || !job && !strings.HasPrefix(m.GetName(), "hook-") {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uids[m.GetName()] == nil {
		h.uids[m.GetName()] = map[types.UID]bool{}
	}
	h.uids[m.GetName()][m.GetUID()] = true
}

// counts are how many objects of each name there were.
func (h *hookObjects) counts() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := map[string]int{}
	for name, uids := range h.uids {
		counts[name] = len(uids)
	}
	return counts
}
