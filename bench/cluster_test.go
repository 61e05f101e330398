package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// watcher starts a watch; every typed client of client-go has one.
type watcher func(context.Context, metav1.ListOptions) (watch.Interface, error)

// podReady gives the moment at which the operator's pod was seen to be ready.
func podReady(ctx context.Context, client kubernetes.Interface, release string) (time.Time, error) {
	return seen(ctx, client.CoreV1().Pods(release).Watch, "app.kubernetes.io/instance="+release, func(o runtime.Object) bool {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return false
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	})
}

// endpointReady gives the moment at which the webhook's Service was seen with a
// ready address.
func endpointReady(ctx context.Context, client kubernetes.Interface, release string) (time.Time, error) {
	selector := discoveryv1.LabelServiceName + "=" + release + "-webhook"
	return seen(ctx, client.DiscoveryV1().EndpointSlices(release).Watch, selector, func(o runtime.Object) bool {
		slice, ok := o.(*discoveryv1.EndpointSlice)
		return ok && hasReady(slice)
	})
}

func hasReady(slice *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return len(e.Addresses) > 0 && e.Conditions.Ready != nil && *e.Conditions.Ready
	})
}

// seen gives the moment at which the event of an object arrived that is as wanted.
func seen(ctx context.Context, start watcher, selector string, wanted func(runtime.Object) bool) (time.Time, error) {
	w, err := start(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return time.Time{}, fmt.Errorf("watching %s: %w", selector, err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("watching %s: %w", selector, context.Cause(ctx))
		case e, open := <-w.ResultChan():
			now := time.Now()
			if !open || e.Type == watch.Error {
				return time.Time{}, fmt.Errorf("watching %s: the watch ended early", selector)
			}
			if wanted(e.Object) {
				return now, nil
			}
		}
	}
}

// operatorSays is what the operator counted.
type operatorSays struct {
	// listening is when its webhook began to listen.
	listening time.Time
	// calls are the calls for objects to create that reached it, each object
	// counted once for the mutating and once for the validating webhook; probes
	// are those for dry-runs.
	calls, probes int
}

// askOperator reads the operator's metrics through the API server.
func askOperator(ctx context.Context, client kubernetes.Interface, release string) (operatorSays, error) {
	text, err := client.CoreV1().Services(release).ProxyGet("http", release+"-webhook-metrics", "8081", "/metrics", nil).DoRaw(ctx)
	if err != nil {
		return operatorSays{}, fmt.Errorf("reading the operator's metrics: %w", err)
	}
	return readMetrics(string(text))
}

func readMetrics(text string) (operatorSays, error) {
	var says operatorSays
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return says, fmt.Errorf("reading metric %s: %w", name, err)
		}
		switch {
		case name == "lab_webhook_listening_since_seconds":
			says.listening = time.UnixMicro(int64(n * 1e6))
		case !strings.HasPrefix(name, "lab_webhook_calls_total{"):
		case strings.Contains(name, `dry_run="true"`):
			says.probes += int(n)
		case strings.Contains(name, `operation="CREATE"`):
			says.calls += int(n)
		}
	}
	if says.listening.UnixMicro() <= 0 {
		return says, errors.New("the operator does not say since when it listens")
	}
	return says, nil
}

// gone bounds how long an iteration waits for its namespace to go, so that the
// end of one install does not disturb the next.
const gone = 10 * time.Second

// cleanUp removes what an install left: first what is in the way of others.
func cleanUp(client kubernetes.Interface, release string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), gone, errors.New("cleaning up took too long"))
	defer cancel()
	labels := metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + release}
	now := metav1.DeleteOptions{}
	webhooks, roles := client.AdmissionregistrationV1(), client.RbacV1()
	err := errors.Join(
		webhooks.ValidatingWebhookConfigurations().DeleteCollection(ctx, now, labels),
		webhooks.MutatingWebhookConfigurations().DeleteCollection(ctx, now, labels),
		roles.ClusterRoleBindings().DeleteCollection(ctx, now, labels),
		roles.ClusterRoles().DeleteCollection(ctx, now, labels),
		stopPods(ctx, client, release),
		client.CoreV1().Namespaces().Delete(ctx, release, now),
	)
	if err != nil {
		return fmt.Errorf("cleaning up after %s: %w", release, err)
	}
	w, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + release})
	if err != nil {
		return fmt.Errorf("cleaning up after %s: %w", release, err)
	}
	defer w.Stop()
	if _, err := client.CoreV1().Namespaces().Get(ctx, release, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return nil
	}
	for e := range w.ResultChan() {
		if e.Type == watch.Deleted {
			break
		}
	}
	return nil // what is not gone yet goes on going
}

// stopPods waits until the pods are gone: a namespace that is deleted with pods
// in it looks for them only every few seconds.
func stopPods(ctx context.Context, client kubernetes.Interface, namespace string) error {
	background := metav1.DeletePropagationBackground
	err := client.AppsV1().Deployments(namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 {
			return err
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

func TestReadMetrics(t *testing.T) {
	says, err := readMetrics(`# TYPE lab_webhook_listening_since_seconds gauge
lab_webhook_listening_since_seconds 1700000000.250000
# TYPE lab_webhook_calls_total counter
lab_webhook_calls_total{path="/mutate",resource="widgets",operation="CREATE",dry_run="false",answer="allow"} 5
lab_webhook_calls_total{path="/validate",resource="widgets",operation="CREATE",dry_run="false",answer="allow"} 5
lab_webhook_calls_total{path="/validate",resource="widgets",operation="CREATE",dry_run="true",answer="allow"} 2
`)
	require.NoError(t, err)
	require.Equal(t, int64(1700000000250), says.listening.UnixMilli())
	require.Equal(t, 10, says.calls)
	require.Equal(t, 2, says.probes)

	_, err = readMetrics("lab_webhook_listening_since_seconds 0.000000\n")
	require.ErrorContains(t, err, "since when it listens")
}
