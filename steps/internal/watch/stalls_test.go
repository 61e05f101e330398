package watch

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/stall"
)

// atOnce endures nothing.
var atOnce = func() stall.Limits {
	grace := map[stall.Class]time.Duration{}
	for class := range stall.Hooks.Grace {
		grace[class] = 0
	}
	return stall.Limits{Grace: grace, Restarts: 1, Starts: 1}
}()

// stuck are objects that a cluster cannot make ready, and what a wait for them says.
const stuck = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: name}
spec:
  selector: {matchLabels: {app: name}}
  template:
    metadata: {labels: {app: name}}
    spec: {containers: [{name: main, image: "NO:::NAME"}]}
says: 'deployment/name: pod name-[^ ]+ is in InvalidImageName: .*couldn.t parse image name'
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: never}
spec:
  selector: {matchLabels: {app: never}}
  template:
    metadata: {labels: {app: never}}
    spec: {containers: [{name: main, image: "kplan.dev/nowhere:1", imagePullPolicy: Never}]}
says: 'deployment/never: pod never-[^ ]+ is in ErrImageNeverPull'
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: start}
spec:
  serviceName: start
  selector: {matchLabels: {app: start}}
  template:
    metadata: {labels: {app: start}}
    spec: {containers: [{name: main, image: "kplan.dev/lab-operator:dev", imagePullPolicy: IfNotPresent, command: [/nope]}]}
says: 'statefulset/start: pod start-0 is in .*container main could not be started: exec: "/nope": stat /nope: no such file or directory'
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: config}
spec:
  selector: {matchLabels: {app: config}}
  template:
    metadata: {labels: {app: config}}
    spec: {containers: [{name: main, image: "kplan.dev/lab-operator:dev", imagePullPolicy: IfNotPresent, envFrom: [{secretRef: {name: absent}}]}]}
says: 'daemonset/config: pod config-[^ ]+ is in CreateContainerConfigError: secret "absent" not found'
---
apiVersion: v1
kind: Pod
metadata: {name: mount}
spec:
  volumes: [{name: tls, secret: {secretName: absent}}]
  containers: [{name: main, image: "kplan.dev/lab-operator:dev", imagePullPolicy: IfNotPresent, volumeMounts: [{name: tls, mountPath: /tls}]}]
says: 'pod/mount: pod mount cannot start: MountVolume.SetUp failed for volume "tls" : secret "absent" not found'
---
apiVersion: batch/v1
kind: Job
metadata: {name: node}
spec:
  template:
    spec: {restartPolicy: Never, nodeSelector: {kplan.dev/none: "yes"}, containers: [{name: main, image: x}]}
says: "job/node: pod node-[^ ]+ cannot be scheduled: 0/1 nodes are available"
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: volume}
spec: {accessModes: [ReadWriteOnce], storageClassName: absent, resources: {requests: {storage: 1Gi}}}
says: 'persistentvolumeclaim/volume: PersistentVolumeClaim volume: storageclass.storage.k8s.io "absent" not found'
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: quota}
spec:
  selector: {matchLabels: {app: quota}}
  template:
    metadata: {labels: {app: quota}}
    spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "9999"}}}]}
says: 'replicaset/quota: its pods cannot be made: pods "quota-[^ ]+" is forbidden: exceeded quota: q'
---
apiVersion: batch/v1
kind: Job
metadata: {name: account}
spec:
  template:
    spec: {restartPolicy: Never, serviceAccountName: absent, containers: [{name: main, image: x}]}
says: 'job/account: its pods cannot be made: Error creating: pods "account-" is forbidden: error looking up service account [^ ]+/absent: serviceaccount "absent" not found'
`

// What cannot get on fails a wait in a real cluster, each with its own cause.
func TestUntilFailsWhatStalls(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	c, err := cluster.Connect(t.Context(), lab.Flags(), "kplan/test")
	require.NoError(t, err)
	s, err := c.Session(cluster.Options{FailFast: true})
	require.NoError(t, err)
	f := fixture{s, lab, lab.Namespace(t)}
	f.create(t, "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {limits.cpu: \"100\"}, scopes: [NotBestEffort]}")
	for doc := range strings.SplitSeq(stuck, "\n---\n") {
		o := f.create(t, doc)
		t.Run(o.GetName(), func(t *testing.T) {
			t.Parallel()
			says := o.Object["says"].(string)
			err := Until(bounded(t), s, Wait{Targets: []Target{TargetOf(o)}, Judge: func(_ Target, u *unstructured.Unstructured) Reading { return Ready(u) }, Limits: &atOnce, Patience: settling})
			failure := (*FailedError)(nil)
			require.ErrorAs(t, err, &failure)
			require.Regexp(t, "^"+says, err.Error())
			require.Contains(t, runner.HintOf(err), "fail_fast: false")
		})
	}
}

// create makes an object of YAML in the fixture's namespace; it keeps what is not the API server's.
func (b fixture) create(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	says := o.Object["says"]
	delete(o.Object, "says")
	m, err := b.Cluster.Mapping(t.Context(), o.GroupVersionKind())
	require.NoError(t, err)
	o.SetNamespace(b.namespace)
	_, err = b.Resource(m, b.namespace).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	o.Object["says"] = says
	return o
}

// podIn is a Pod whose container main waits for a reason, started anew so often.
func podIn(reason string, restarts int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "default", "uid": "web"},
		"status": map[string]any{"phase": "Pending", "containerStatuses": []any{map[string]any{
			"name": "main", "image": "web:1", "restartCount": restarts, "state": map[string]any{"waiting": map[string]any{"reason": reason, "message": "not found"}},
			"lastState": map[string]any{"terminated": map[string]any{"exitCode": int64(2)}},
		}}},
	}}
}

// boardOfPod has the target pod/web and follows pods beside it, as after some seconds.
func boardOfPod(restarts *stall.Restarts) (see func(*unstructured.Unstructured) error) {
	c := cluster.Unconnected("default")
	c.Restarts = restarts
	target := Target{Kind: podIn("", 0).GroupVersionKind(), Namespace: "default", Name: "web"}
	s := &cluster.Session{Cluster: c, FailFast: true}
	b := newTracker(s, Wait{Targets: []Target{target}, Judge: func(_ Target, u *unstructured.Unstructured) Reading { return Ready(u) }})
	f := target.listing(s)
	followed := map[string]listing{}
	return func(p *unstructured.Unstructured) error {
		b.take(update{listing: f, object: p})
		for _, l := range b.suspects() {
			followed[l.kind.Kind] = l
		}
		beside := followed["Pod"]
		b.take(update{listing: beside, object: p})
		b.judgeAll()
		_, err := b.verdict()
		return err
	}
}

func TestBoardEnduresAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		see := boardOfPod(nil)
		require.NoError(t, see(podIn("ErrImagePull", 0)))
		time.Sleep(stall.Default.Grace[stall.Image] - time.Second)
		require.NoError(t, see(podIn("ImagePullBackOff", 0)))
		require.NoError(t, see(podIn("ContainerCreating", 0)), "it was pulled after all")
		time.Sleep(time.Minute)
		require.NoError(t, see(podIn("ErrImagePull", 0)), "the grace begins anew")
		time.Sleep(stall.Default.Grace[stall.Image])
		require.EqualError(t, see(podIn("ErrImagePull", 0)), `pod/web: pod web is in ImagePullBackOff, image "web:1": not found (for 1m0s)`)
	})
}

// An operator may crash until what it needs is there: it is not given up before both its
// restarts and its time are up, and the next attempt counts on.
func TestBoardEnduresCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		restarts := new(stall.Restarts)
		see := boardOfPod(restarts)
		require.NoError(t, see(podIn("CrashLoopBackOff", 40)), "those before the run do not count")
		time.Sleep(10 * time.Minute)
		for n := range stall.Default.Restarts - 1 {
			require.NoError(t, see(podIn("CrashLoopBackOff", 41+int64(n))))
		}
		require.ErrorContains(t, see(podIn("CrashLoopBackOff", 45)), "pod web is in CrashLoopBackOff: container main ended with 2")

		see = boardOfPod(restarts)
		require.NoError(t, see(podIn("CrashLoopBackOff", 45)), "another attempt: the cause may be mended")
		time.Sleep(stall.Default.Grace[stall.Crash])
		require.NoError(t, see(podIn("CrashLoopBackOff", 45)))
		require.Error(t, see(podIn("CrashLoopBackOff", 46)), "it is not")
	})
}

func TestBoardIsPatient(t *testing.T) {
	s := &cluster.Session{Cluster: cluster.Unconnected("default"), FailFast: true}
	for name, w := range map[string]Wait{"patient": {Patient: true}, "deletion": {Deletion: true}} {
		require.Nil(t, newTracker(s, w).stalls, name)
	}
	require.Nil(t, newTracker(&cluster.Session{Cluster: s.Cluster}, Wait{}).stalls)
}
