package podlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kplan-dev/kplan/runner"
)

// reports keeps what is reported.
type reports struct {
	mu   sync.Mutex
	list []runner.Report
}

func (r *reports) Report(rep runner.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, rep)
}

func TestParse(t *testing.T) {
	for object, want := range map[string]ref{
		"Deployment/ns/web":    {deployment, "ns", "web"},
		"deploy/ns/web":        {deployment, "ns", "web"},
		"jobs.batch/ns/import": {job, "ns", "import"},
		"pods/ns/app=web":      {pod, "ns", "app=web"},
		"Widget/ns/w":          {},
		"Node/a":               {},
		"":                     {},
	} {
		got, ok := parse(object)
		require.Equal(t, want.kind != "", ok, object)
		if ok {
			require.Equal(t, want, got)
		}
	}
}

// podOf is a pod that a controller made.
func podOf(kind, owner, hash string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", Labels: map[string]string{"pod-template-hash": hash, "app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, Name: owner, Controller: new(true)}},
	}}
}

func TestOwns(t *testing.T) {
	for _, tt := range []struct {
		target target
		pod    *corev1.Pod
		want   bool
	}{
		{target{ref: ref{deployment, "ns", "web"}}, podOf("ReplicaSet", "web-6d7", "6d7"), true},
		{target{ref: ref{deployment, "ns", "web"}}, podOf("ReplicaSet", "web-db-6d7", "6d7"), false},
		{target{ref: ref{deployment, "other", "web"}}, podOf("ReplicaSet", "web-6d7", "6d7"), false},
		{target{ref: ref{job, "ns", "import"}}, podOf("Job", "import", ""), true},
		{target{ref: ref{job, "ns", "import"}}, podOf("StatefulSet", "import", ""), false},
		{target{ref: ref{pod, "ns", "p"}}, podOf("Job", "import", ""), true},
		{target{ref: ref{service, "ns", "web"}}, podOf("Job", "import", ""), false},
	} {
		require.Equal(t, tt.want, tt.target.owns(tt.pod), "%v", tt.target.ref)
	}
}

// Of several that are in trouble always the same one is told.
func TestExplainTellsOne(t *testing.T) {
	pods := &Reporter{targets: map[ref]*target{}}
	for _, name := range []string{"d", "b", "a", "c"} {
		to := ref{deployment, "ns", name}
		pods.targets[to] = &target{ref: to, worst: "pod " + name + "-1 is in ImagePullBackOff"}
	}
	for range 20 {
		err := pods.explain(errors.New("b, c and d are not ready\nwhat the API server said"))
		require.EqualError(t, err, "b, c and d are not ready; pod b-1 is in ImagePullBackOff\nwhat the API server said")
		require.Contains(t, runner.HintOf(err), "cannot fetch the container's image")
	}
}

// An error that tells of the pod already gets what it said last, and no second telling.
func TestExplainTellsOnce(t *testing.T) {
	to := ref{deployment, "ns", "web"}
	pods := &Reporter{targets: map[ref]*target{to: {
		ref: to, worst: "pod web-1 is being created", lines: []string{"no certificate"}, spoke: "Pod/ns/web-1 container main",
	}}}
	err := pods.explain(runner.WithHint(errors.New("deployment/web: pod web-1 cannot start: no Secret"), "look"))
	require.EqualError(t, err, "deployment/web: pod web-1 cannot start: no Secret\nPod/ns/web-1 container main said last:\n  no certificate")
	require.Equal(t, "look", runner.HintOf(err))
}

// A warning about a ReplicaSet is the Deployment's.
func TestConcerns(t *testing.T) {
	about := func(kind, name string) *corev1.Event {
		return &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}}
	}
	c := target{ref: ref{deployment, "ns", "web"}}
	require.True(t, c.isAbout(about("Deployment", "web")))
	require.True(t, c.isAbout(about("ReplicaSet", "web-6d7")))
	require.False(t, c.isAbout(about("ReplicaSet", "web-db-6d7")))
	require.False(t, c.isAbout(about("ReplicaSet", "other-6d7")))
	require.False(t, c.isAbout(about("Pod", "web")))
}

// What a step has left behind is not told again when its pods change: its counts are
// those of then.
func TestNoWayBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &reports{}
		pods := New(t.Context(), NewSource(fake.NewClientset()), out)
		defer func() { require.NoError(t, pods.Close(t.Context(), nil)) }()
		report := func(name string, done int) {
			pods.Report(runner.Report{Type: runner.TypeProgress, Object: "Deployment/ns/" + name, Done: done, Total: 19})
		}
		s := &watcher{reporter: pods, namespace: "ns", pods: map[string]*corev1.Pod{}, warnings: map[string]*corev1.Event{}}
		trouble := func(name string) {
			s.pods[name+"-6d7f-x2x4z"] = &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: name + "-6d7f-x2x4z", Labels: map[string]string{"pod-template-hash": "6d7f"},
					OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: name + "-6d7f", Controller: new(true)}},
				},
				Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
					Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
				}}},
			}
			s.look(pods.targets[ref{deployment, "ns", name}])
		}
		report("web", 4)
		trouble("web")
		require.Len(t, out.list, 2)
		require.Contains(t, out.list[1].Message, "ImagePullBackOff")

		report("db", 12)
		s.pods = map[string]*corev1.Pod{}
		s.look(pods.targets[ref{deployment, "ns", "web"}])
		require.Len(t, out.list, 3)
		require.Equal(t, 12, out.list[2].Done)
	})
}

// What goes on costs no request, and neither does what is there in time.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		out := &reports{}
		pods := New(t.Context(), NewSource(client), out)
		for i := range 10 {
			pods.Report(runner.Report{Type: runner.TypeProgress, Object: "Deployment/ns/web", Message: fmt.Sprintf("%d of 10", i)})
			time.Sleep(patience - time.Second)
		}
		pods.Report(runner.Report{Type: runner.TypeHeld, Webhook: &runner.Webhook{Name: "w", Service: "ns/s"}})
		time.Sleep(time.Second / 2)
		pods.Report(runner.Report{Type: runner.TypeReleased, Webhook: &runner.Webhook{Name: "w", Service: "ns/s"}})
		require.NoError(t, pods.Close(t.Context(), nil))
		require.Empty(t, client.Actions())
		require.Len(t, out.list, 12, "all is handed on")
	})
}

// A run that was told to stop is not put off by looking at pods.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	client := fake.NewClientset()
	pods := New(ctx, NewSource(client), &reports{})
	pods.Report(runner.Report{Type: runner.TypeProgress, Object: "Deployment/ns/web", Message: "0 of 10"})
	stop := errors.New("stopped")
	cancel(stop)
	require.Equal(t, stop, pods.Close(ctx, stop))
	require.Equal(t, stop, pods.Close(ctx, stop), "once more does nothing")
	require.Empty(t, client.Actions())
}

// What a log says is bounded, and nothing in it is obeyed.
func TestLines(t *testing.T) {
	out := &reports{}
	pods := New(t.Context(), NewSource(fake.NewClientset()), out)
	s := stream{target: &target{}, pod: podOf("Job", "import", ""), container: "c"}

	pods.lines(s, strings.NewReader("one\r\n\x1b[31mred\x1b[0m\n\ntabs\tand "+strings.Repeat("x", 2*mostChars)+"\nno end"))
	require.Len(t, out.list, 2, "what comes at once is told at once, but for a line without an end")
	require.Equal(t, "Pod/ns/p container c", out.list[0].Object)
	require.Equal(t, []string{"one", "red", "", "tabs and " + strings.Repeat("x", mostChars-9) + " …"}, strings.Split(out.list[0].Message, "\n"))
	require.Equal(t, "no end", out.list[1].Message)

	out.list = nil
	pods.lines(s, io.MultiReader(strings.NewReader(strings.Repeat("a\n", 3)), strings.NewReader(strings.Repeat("b\n", 2*mostLines))))
	told := 0
	for _, r := range out.list[:len(out.list)-1] {
		told += len(strings.Split(r.Message, "\n"))
	}
	require.Equal(t, mostLines, told)
	require.Equal(t, "(more is not shown, see: kubectl logs -n ns p -c c)", out.list[len(out.list)-1].Message)
	require.Equal(t, "\nPod/ns/p container c said last:"+strings.Repeat("\n  b", mostLast), s.target.lastLines())
}

// A line without an end takes no more memory than there is room for.
func TestNext(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 1000)+"\nnext\n"), 16)
	text, err := next(in)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", 16), text)
	text, err = next(in)
	require.NoError(t, err)
	require.Equal(t, "next", text)
	_, err = next(in)
	require.ErrorIs(t, err, io.EOF)
}
