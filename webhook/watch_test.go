package webhook

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// news collects what a watch tells.
type news struct{ got chan change }

func (n *news) next(t *testing.T) change {
	t.Helper()
	select {
	case c := <-n.got:
		return c
	case <-time.After(10 * time.Second):
		require.Fail(t, "the watch told nothing")
		return change{}
	}
}

// follow starts a watch of Service ns/w; the test ends it and waits for it.
func follow(t *testing.T, client *fake.Clientset) *news {
	t.Helper()
	n := &news{make(chan change, 100)}
	w := &watch{
		client: client, fault: Fault{Kind: Admission, Webhook: "v.example.io", Service: "w", Namespace: "ns"},
		changed: func(c change) { n.got <- c },
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	t.Cleanup(func() {
		cancel(errors.New("the test is over"))
		running.Wait()
	})
	return n
}

func endpoints(ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "w-1", Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: "w"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

func TestWatchFollowsEndpoints(t *testing.T) {
	client := fake.NewClientset()
	slices := client.DiscoveryV1().EndpointSlices("ns")
	n := follow(t, client)

	require.Equal(t, change{backed: unbacked}, n.next(t), "a Service without slices")
	_, err := slices.Create(t.Context(), endpoints(true), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, change{backed: backed}, n.next(t), "an endpoint appears")
	_, err = slices.Update(t.Context(), endpoints(false), metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, change{backed: unbacked}, n.next(t), "it is not ready any more")
}

func TestWatchFollowsConfigurations(t *testing.T) {
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1"}}
	client := fake.NewClientset(configuration, endpoints(true))
	n := follow(t, client)
	require.Equal(t, change{backed: backed}, n.next(t))
	require.Eventually(t, func() bool { return watching(client, "validatingwebhookconfigurations") }, 10*time.Second, time.Millisecond)

	injected := configuration.DeepCopy()
	injected.ResourceVersion = "2"
	injected.Webhooks = []admissionv1.ValidatingWebhook{{Name: "v.example.io"}}
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), injected, metav1.UpdateOptions{})
	require.NoError(t, err)

	require.Equal(t, change{backed: backed, configuration: true}, n.next(t), "its CA bundle may have been filled in")
}

func watching(client *fake.Clientset, resource string) bool {
	for _, a := range client.Actions() {
		if a.Matches("watch", resource) {
			return true
		}
	}
	return false
}

// Where endpoints may not be read nothing is told of them, and the pace stays
// by backoff; the watch still ends with its context.
func TestWatchWithoutPermission(t *testing.T) {
	client := fake.NewClientset()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "", errors.New("no"))
	client.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, forbidden
	})
	n := follow(t, client)
	require.Eventually(t, func() bool { return len(client.Actions()) > 3 }, 10*time.Second, time.Millisecond)
	require.Empty(t, n.got)
}

// A closed gate has no watch left, and requests are held by backoff alone.
func TestGateClose(t *testing.T) {
	g := NewGate(fake.NewClientset())
	turn := g.join(Fault{Kind: Admission, Webhook: "v", Service: "w", Namespace: "ns"})
	g.Close()
	g.Close()
	turn.leave()
	require.Empty(t, g.doors)
	g.join(Fault{Kind: Admission, Webhook: "v"}).leave()
}
