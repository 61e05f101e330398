package survey_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

const (
	configuration = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: conf, resourceVersion: "1"}
webhooks: [{name: w.example.io, clientConfig: {service: {name: w, namespace: ns}}}]`
	service = `
apiVersion: v1
kind: Service
metadata: {name: w, namespace: ns, resourceVersion: "1"}
spec: {selector: {app: %s}, ports: [{port: 443}]}`
	endpoint = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: w-1, namespace: ns, resourceVersion: "%d", labels: {kubernetes.io/service-name: w}}
ports: [{name: "", port: 9443}]
endpoints: [{addresses: [10.0.0.7], conditions: {ready: %t}}]`
	pod = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: ns, resourceVersion: "1", labels: {app: %[1]s}}
spec: {volumes: [{name: tls, secret: {secretName: %[1]s-tls}}]}
status: {phase: Pending, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]}`
	definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.example.io}
spec: {group: example.io, names: {kind: Gizmo}, conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: w, namespace: ns}}}}}`
)

var resources = map[string]schema.GroupVersionResource{
	"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	"MutatingWebhookConfiguration":   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	"CustomResourceDefinition":       {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"Service":                        {Version: "v1", Resource: "services"},
	"EndpointSlice":                  {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	"Pod":                            {Version: "v1", Resource: "pods"},
	"Secret":                         {Version: "v1", Resource: "secrets"},
	"Deployment":                     {Group: "apps", Version: "v1", Resource: "deployments"},
	"StatefulSet":                    {Group: "apps", Version: "v1", Resource: "statefulsets"},
}

// bench is a survey of a fake cluster.
type bench struct {
	*testing.T
	client  *fake.FakeDynamicClient
	survey  *survey.Survey
	changes atomic.Int32 // calls of changed
}

func newBench(t *testing.T, objects ...string) *bench {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{}
	for kind, gvr := range resources {
		kinds[gvr] = kind + "List"
	}
	b := &bench{T: t, client: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)}
	for _, o := range objects {
		b.create(o)
	}
	b.survey = survey.New(b.client)
	t.Cleanup(b.survey.Close)
	return b
}

func (b *bench) object(text string) (*unstructured.Unstructured, schema.GroupVersionResource) {
	b.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(b, yaml.Unmarshal([]byte(text), &u.Object))
	return u, resources[u.GetKind()]
}

func (b *bench) create(text string) {
	b.Helper()
	u, gvr := b.object(text)
	require.NoError(b, b.client.Tracker().Create(gvr, u, u.GetNamespace()))
}

func (b *bench) update(text string) {
	b.Helper()
	u, gvr := b.object(text)
	require.NoError(b, b.client.Tracker().Update(gvr, u, u.GetNamespace()))
}

// follow follows all webhooks until the end of the test.
func (b *bench) follow() *survey.Subscription {
	f := b.survey.Subscribe(survey.Target{Match: func(webhook.Entry) bool { return true }}, func() { b.changes.Add(1) })
	b.Cleanup(f.Close)
	return f
}

// on answers a verb on a resource in its own way.
func (b *bench) on(verb, resource string, fault func() error) {
	if verb == "watch" {
		b.client.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
			err := fault()
			return err != nil, nil, err
		})
		return
	}
	b.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		err := fault()
		return err != nil, nil, err
	})
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
}

// count is how often a verb was used on a resource.
func (b *bench) count(verb, resource string) int {
	n := 0
	for _, a := range b.client.Actions() {
		if a.Matches(verb, resource) {
			n++
		}
	}
	return n
}

// reading is that of one rung of the only webhook.
func (b *bench) reading(f *survey.Subscription, rung webhook.Rung) webhook.Reading {
	b.Helper()
	require.Len(b, f.Statuses(), 1)
	r, ok := f.Statuses()[0].Ladder.At(rung)
	require.True(b, ok)
	return r
}

func TestEventsChangeStandings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration, fmt.Sprintf(service, "a"))
		f := b.follow()
		synctest.Wait()
		require.True(t, f.Synced())
		require.Equal(t, "no endpoints; no pod has the labels that the Service selects", b.reading(f, webhook.Backed).Reason)
		require.Empty(t, b.survey.Unreadable())

		before := b.changes.Load()
		time.Sleep(time.Second)
		b.create(fmt.Sprintf(endpoint, 1, false))
		synctest.Wait()
		require.Greater(t, b.changes.Load(), before)
		r := b.reading(f, webhook.Backed)
		require.Equal(t, webhook.Waiting, r.State)
		require.Zero(t, r.Since, "nobody knows since when it waits")

		time.Sleep(time.Second)
		b.update(fmt.Sprintf(endpoint, 2, true))
		synctest.Wait()
		r = b.reading(f, webhook.Backed)
		require.Equal(t, webhook.Ready, r.State)
		require.Equal(t, time.Now(), r.Since, "it was seen to become ready")
		time.Sleep(time.Second)
		require.Equal(t, r, b.reading(f, webhook.Backed))
	})
}

func TestFollowTellsWhatOthersFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration, fmt.Sprintf(service, "a"))
		b.follow()
		synctest.Wait()
		before := b.changes.Load()
		require.True(t, b.follow().Synced())
		synctest.Wait()
		require.Equal(t, before+1, b.changes.Load())
	})
}

func TestFaultOfNoConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, definition)
		fault := webhook.Fault{Kind: webhook.Admission, Webhook: "gone.example.io"}
		f := b.survey.Subscribe(survey.Target{Fault: &fault}, func() {})
		defer f.Close()
		synctest.Wait()
		require.Equal(t, webhook.Waiting, b.reading(f, webhook.Configured).State)
		require.Zero(t, b.count("list", "customresourcedefinitions"), "an admission webhook is not configured by a CRD")
	})
}

func TestConversions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration, definition)
		f := b.survey.Subscribe(survey.Target{Match: func(webhook.Entry) bool { return true }, Conversions: true}, func() {})
		defer f.Close()
		synctest.Wait()
		standings := f.Statuses()
		require.Len(t, standings, 2)
		require.Equal(t, webhook.Validating, standings[0].Kind)
		require.Equal(t, webhook.Conversion, standings[1].Kind)
	})
}

// deaf makes the watches of a resource say nothing at all.
func deaf(b *bench, resource string) {
	b.client.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
}

func TestSelectorChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration, fmt.Sprintf(service, "a"), fmt.Sprintf(pod, "a"), fmt.Sprintf(pod, "b"))
		f := b.follow()
		synctest.Wait()
		require.Equal(t, "no endpoints; pod a cannot start: Secret a-tls, which it mounts, does not exist", b.reading(f, webhook.Backed).Reason)

		b.update(fmt.Sprintf(service, "b"))
		synctest.Wait()
		require.Equal(t, "no endpoints; pod b cannot start: Secret b-tls, which it mounts, does not exist", b.reading(f, webhook.Backed).Reason)
		require.True(t, f.Synced())
	})
}

func TestSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration, fmt.Sprintf(service, "a"), fmt.Sprintf(pod, "a"))
		b.create(secret(t, "a-tls"))
		b.create(secret(t, "other"))
		f := b.follow()
		synctest.Wait()
		got := f.Statuses()[0].Backing
		require.Len(t, got.Certificates, 1)
		require.Equal(t, "Secret/ns/a-tls", got.Certificates[0].Source.String())
		for _, a := range b.client.Actions() {
			if a.GetResource().Resource == "secrets" {
				require.Equal(t, "a-tls", a.(clienttesting.GetAction).GetName(), "no other Secret is read")
			}
		}

		before := b.changes.Load()
		b.update(secret(t, "a-tls"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Greater(t, b.changes.Load(), before, "a new certificate is found")
	})
}

func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration)
		f := b.follow()
		synctest.Wait()
		fault := webhook.Fault{Kind: webhook.Admission, Class: webhook.Race, Webhook: "w.example.io", Cause: "connection refused"}
		began := time.Now()
		for range 2 {
			b.survey.RecordCall(fault, false)
			time.Sleep(time.Second)
		}
		r := b.reading(f, webhook.Serving)
		require.Equal(t, "connection refused", r.Reason)
		require.Equal(t, began, r.Since, "since the first of the calls that failed")

		b.survey.RecordCall(fault, true)
		answered := time.Now()
		time.Sleep(time.Second)
		b.survey.RecordCall(fault, true)
		r = b.reading(f, webhook.Admitting)
		require.Equal(t, webhook.Ready, r.State)
		require.Equal(t, "2 answers in a row", r.Reason)
		require.Equal(t, answered, r.Since)
	})
}

func TestWatchesOnlyWhatIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration)
		require.Empty(t, b.client.Actions())
		f := b.follow()
		synctest.Wait()
		f.Close()
		f.Close() // twice is harmless
		synctest.Wait()
		n := len(b.client.Actions())
		time.Sleep(time.Hour)
		require.Len(t, b.client.Actions(), n)
	})
}

func TestFollowAfterClose(t *testing.T) {
	b := newBench(t, configuration)
	b.survey.Close()
	f := b.follow()
	require.False(t, f.Synced())
	require.Empty(t, f.Statuses())
	require.Zero(t, b.changes.Load())
	f.Close()
	b.survey.Close() // twice is harmless
}

// A bubble of synctest ends only when its goroutines do, so the tests above find
// what a survey leaves behind as well.
func TestConcurrentFollowers(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	b := newBench(t, configuration, fmt.Sprintf(service, "a"), fmt.Sprintf(pod, "a"), fmt.Sprintf(endpoint, 1, true))
	fault := webhook.Fault{Kind: webhook.Admission, Webhook: "w.example.io", Service: "w", Namespace: "ns", Port: "443"}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				f := b.survey.Subscribe(survey.Target{Fault: &fault}, func() {})
				f.Statuses()
				f.Synced()
				b.survey.RecordCall(fault, true)
				b.survey.Unreadable()
				f.Close()
			}
		})
	}
	all.Go(func() {
		for i := range 50 {
			u, gvr := b.object(fmt.Sprintf(service, string(corev1.ServiceTypeClusterIP[:1+i%3])))
			_ = b.client.Tracker().Update(gvr, u, "ns")
		}
	})
	all.Wait()
	b.survey.Close()
}
