package watch

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	require.NoError(t, u.UnmarshalJSON(raw))
	return u
}

func TestReady(t *testing.T) {
	for name, tt := range map[string]struct {
		object string
		want   Reading
	}{
		"an object that is absent": {"", waiting("not found")},
		"an object that is being deleted": {`
apiVersion: v1
kind: ConfigMap
metadata: {name: x, deletionTimestamp: "2026-01-01T00:00:00Z"}`, waiting("being deleted")},
		"a ConfigMap": {`{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}`, reached("Resource is always ready")},
		"a Deployment that its controller has not seen": {`
apiVersion: apps/v1
kind: Deployment
metadata: {name: x, generation: 1}
spec: {replicas: 1, progressDeadlineSeconds: 600}`, waiting("Replicas: 0/1")},
		"a Deployment whose pods start": {`
apiVersion: apps/v1
kind: Deployment
metadata: {name: x, generation: 1}
spec: {replicas: 1, progressDeadlineSeconds: 600}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1}`, waiting("Available: 0/1")},
		"a Deployment of an older generation": {
			`
apiVersion: apps/v1
kind: Deployment
metadata: {name: x, generation: 2}
spec: {replicas: 1, progressDeadlineSeconds: 600}
status:
  {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1,
   conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]}`,
			waiting("Deployment generation is 2, but latest observed generation is 1"),
		},
		"a Deployment that is available": {
			`
apiVersion: apps/v1
kind: Deployment
metadata: {name: x, generation: 1}
spec: {replicas: 1, progressDeadlineSeconds: 600}
status:
  {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1,
   conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]}`,
			reached("Deployment is available. Replicas: 1"),
		},
		"a Deployment past its progress deadline may yet recover": {
			`
apiVersion: apps/v1
kind: Deployment
metadata: {name: x, generation: 1}
spec: {replicas: 1, progressDeadlineSeconds: 600}
status: {observedGeneration: 1, replicas: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}`,
			Reading{State: Failed, Reason: "Progress deadline exceeded", Recoverable: true},
		},
		"a DaemonSet that is rolled out": {
			`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: x, generation: 2}
spec: {updateStrategy: {type: RollingUpdate}}
status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 1, numberReady: 2, numberAvailable: 2}`,
			waiting("Updated: 1/2"),
		},
		"a DaemonSet whose pods are replaced by hand": {
			`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: x, generation: 2}
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberReady: 2, numberAvailable: 2}`,
			reached("All replicas scheduled as expected. Replicas: 2"),
		},
		"a DaemonSet whose pods are replaced by hand, of an older generation": {
			`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: x, generation: 2}
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 1, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberReady: 2, numberAvailable: 2}`,
			waiting("DaemonSet generation is 2, but latest observed generation is 1"),
		},
		"a DaemonSet whose pods are replaced by hand, with one that is not ready": {
			`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: x, generation: 2}
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberReady: 1, numberAvailable: 2}`,
			waiting("Ready: 1/2"),
		},
		"a Deployment that is paused": {`
apiVersion: apps/v1
kind: Deployment
metadata: {name: x, generation: 1}
spec: {replicas: 1, paused: true}`, reached("paused")},
		"a Service without a load balancer yet": {
			`{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}, status: {loadBalancer: {}}}`,
			waiting("no load balancer has given it an address"),
		},
		"a Service whose load balancer has an address": {`
apiVersion: v1
kind: Service
metadata: {name: x}
spec: {type: LoadBalancer, clusterIP: 10.0.0.1}
status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}`, reached("Service is ready")},
		"a Service with addresses of its own": {
			`{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1, externalIPs: [192.0.2.1]}}`,
			reached("Service is ready"),
		},
		"a Service that wants no load balancer": {
			`{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {type: ClusterIP, clusterIP: 10.0.0.1}}`, reached("Service is ready"),
		},
		"a Job that nobody has started": {`{apiVersion: batch/v1, kind: Job, metadata: {name: x}}`, waiting("not started")},
		"a Job that runs": {`
apiVersion: batch/v1
kind: Job
metadata: {name: x}
spec: {completions: 2}
status: {startTime: "2026-01-01T00:00:00Z", active: 1, succeeded: 1}`, waiting("succeeded: 1/2, active: 1, failed: 0")},
		"a Job that is complete": {`
apiVersion: batch/v1
kind: Job
metadata: {name: x}
status: {startTime: "2026-01-01T00:00:00Z", conditions: [{type: Complete, status: "True"}]}`, reached("complete")},
		"a Job that failed": {
			`
apiVersion: batch/v1
kind: Job
metadata: {name: x}
status: {conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: Job has reached the specified backoff limit}]}`,
			failed("Failed is True: Job has reached the specified backoff limit"),
		},
		"a Job that is suspended": {`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {suspend: true}}`, reached("suspended")},
		"a Pod in a crash loop may yet come up": {
			`
apiVersion: v1
kind: Pod
metadata: {name: x}
status: {phase: Running, containerStatuses: [{name: operator, state: {waiting: {reason: CrashLoopBackOff}}}]}`,
			waiting("Containers in CrashLoop state: operator"),
		},
		"a Pod that ended in failure": {`
apiVersion: v1
kind: Pod
metadata: {name: x}
status: {phase: Failed, reason: Evicted}`, failed("the pod failed Evicted")},
		"a CustomResourceDefinition whose names are taken": {
			`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: x}
status: {conditions: [{type: NamesAccepted, status: "False", reason: ListKindConflict, message: taken}]}`,
			Reading{State: Failed, Reason: "taken", Recoverable: true},
		},
		"a CustomResourceDefinition without status": {`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: x}`, waiting("Install in progress")},
		"a custom resource without status": {`
{apiVersion: example.io/v1, kind: Widget, metadata: {name: x, generation: 1}}`, reached("Resource is current")},
		"a custom resource that is not Ready": {`
apiVersion: example.io/v1
kind: Widget
metadata: {name: x, generation: 1}
status: {conditions: [{type: Ready, status: "False", reason: Pending, message: no issuer}]}`, waiting("no issuer")},
		"a custom resource that gives no message": {`
apiVersion: example.io/v1
kind: Widget
metadata: {name: x, generation: 1}
status: {conditions: [{type: Ready, status: Unknown, reason: Pending}]}`, waiting("Pending")},
		"an APIService that is not Available": {
			`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.metrics.k8s.io}
status: {conditions: [{type: Available, status: "False", reason: MissingEndpoints, message: no endpoints}]}`,
			waiting("Available is False: no endpoints"),
		},
		"a custom resource that was Ready a generation ago": {
			`
apiVersion: example.io/v1
kind: Widget
metadata: {name: x, generation: 3}
status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}`,
			waiting("Widget generation is 3, but latest observed generation is 2"),
		},
		"a resource with its generation as a string, as Argo Rollouts write it": {`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: x, generation: 3}
status: {observedGeneration: "2", conditions: [{type: Available, status: "True"}]}`, waiting("generation is 3, observed is 2")},
		"a resource with its generation as a string, and up to date": {`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: x, generation: 3}
status: {observedGeneration: "3", conditions: [{type: Available, status: "True"}]}`, reached("")},
		"a resource with conditions in a form of its own": {`
apiVersion: example.io/v1
kind: Widget
metadata: {name: x, generation: 3}
status: {conditions: {ready: true}}`, reached("")},
	} {
		t.Run(name, func(t *testing.T) {
			u := object(t, tt.object)
			var before *unstructured.Unstructured
			if u != nil {
				before = u.DeepCopy()
			}
			require.Equal(t, tt.want, Ready(u))
			require.Equal(t, before, u, "judging changes nothing")
		})
	}
}
