package hold

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
metadata: {name: c, resourceVersion: "%d", annotations: {meta.helm.sh/release-name: op, meta.helm.sh/release-namespace: ns}}
webhooks: [{name: v.example.io, clientConfig: {caBundle: %q, service: {name: w, namespace: ns}}}]`
	service = `
apiVersion: v1
kind: Service
metadata: {name: w, namespace: ns, resourceVersion: "1"}
spec: {ports: [{port: 443}]}`
	endpoint = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: w-1, namespace: ns, resourceVersion: "%d", labels: {kubernetes.io/service-name: w}}
ports: [{name: "", port: 9443}]
endpoints: [{addresses: [10.0.0.7], conditions: {ready: %t}}]`
)

var resources = map[string]schema.GroupVersionResource{
	"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	"MutatingWebhookConfiguration":   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	"Service":                        {Version: "v1", Resource: "services"},
	"EndpointSlice":                  {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	"Pod":                            {Version: "v1", Resource: "pods"},
}

// cluster is a fake of what a survey reads.
type cluster struct {
	*testing.T
	client *fake.FakeDynamicClient
}

func newCluster(t *testing.T, objects ...string) *cluster {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{}
	for kind, gvr := range resources {
		kinds[gvr] = kind + "List"
	}
	c := &cluster{t, fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)}
	for _, o := range objects {
		c.set(o)
	}
	return c
}

// set creates an object, or updates it.
func (c *cluster) set(text string) {
	c.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(c, yaml.Unmarshal([]byte(text), &u.Object))
	gvr := resources[u.GetKind()]
	if err := c.client.Tracker().Create(gvr, u, u.GetNamespace()); err != nil {
		require.NoError(c, c.client.Tracker().Update(gvr, u, u.GetNamespace()))
	}
}

// authority is a CA bundle that is in force, in base64.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// While nobody can answer, the leader is sent rarely; when an endpoint appears,
// at once. What the webhook lacks is told.
func TestGateFollowsTheLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, fmt.Sprintf(configuration, 1, authority(t)), service, fmt.Sprintf(endpoint, 1, false))
		view := survey.New(c.client)
		defer view.Close()
		ready := time.Now().Add(21 * time.Second)
		server := &apiServer{answer: readyAfter(21*time.Second, refused)}
		var stands []string
		tr := &Transport{Base: server, Gate: NewGate(view), Notify: func(n Notice) {
			if n.Event == StatusChanged {
				r, _ := n.Status.Ladder.Missing()
				stands = append(stands, r.String())
				require.Equal(t, "Helm release ns/op", n.Status.Owner.String())
			}
		}}
		go func() {
			time.Sleep(20 * time.Second)
			require.LessOrEqual(t, server.sends.Load(), int32(14), "one every two seconds, and some at the start")
			c.set(fmt.Sprintf(endpoint, 2, true))
		}()

		_, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		require.NoError(t, err)
		require.WithinRange(t, time.Now(), ready, ready.Add(2*fastInterval))
		require.Len(t, stands, 2)
		require.Contains(t, stands[0], "backed: 0 of 1 endpoints ready")
		require.Contains(t, stands[1], "serving: dial tcp 10.96.0.9:443: connect: connection refused")
	})
}

// A configuration that changes is tried at once, whoever answers.
func TestGateTriesAChangedConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, fmt.Sprintf(configuration, 1, ""), service, fmt.Sprintf(endpoint, 1, false))
		view := survey.New(c.client)
		defer view.Close()
		injected := time.Now().Add(21 * time.Second)
		tr := &Transport{Base: &apiServer{answer: readyAfter(21*time.Second, refused)}, Gate: NewGate(view)}
		go func() {
			time.Sleep(time.Until(injected))
			c.set(fmt.Sprintf(configuration, 2, authority(t)))
		}()

		_, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		require.NoError(t, err)
		require.WithinRange(t, time.Now(), injected, injected.Add(2*fastInterval))
	})
}

// A request that is given up says how its webhook stood, and when it is worth
// another try.
func TestGivenUpRequestsKnowTheirWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, fmt.Sprintf(configuration, 1, authority(t)), service, fmt.Sprintf(endpoint, 1, false))
		view := survey.New(c.client)
		defer view.Close()
		gate := NewGate(view)
		tr := &Transport{Base: &apiServer{answer: readyAfter(time.Hour, refused)}, Gate: gate, Timeout: 10 * time.Second}

		_, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		var held *Error
		require.ErrorAs(t, err, &held)
		require.Equal(t, "c", held.Status.Configuration)
		missing, _ := held.Status.Ladder.Missing()
		require.Equal(t, webhook.Backed, missing.Rung)
		require.Equal(t, held.Fault, webhook.ClassifyError(err))

		ready := gate.Ready(held)
		time.Sleep(time.Minute)
		select {
		case <-ready:
			require.Fail(t, "nothing has changed")
		default:
		}
		c.set(fmt.Sprintf(endpoint, 2, true))
		synctest.Wait()
		<-ready
	})
}

// Where nothing may be read the hold goes by time alone, as without a survey.
func TestGateWithoutPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
		})
		view := survey.New(c.client)
		defer view.Close()
		ready := time.Now().Add(30 * time.Second)
		tr := &Transport{Base: &apiServer{answer: readyAfter(30*time.Second, refused)}, Gate: NewGate(view)}

		_, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		require.NoError(t, err)
		require.WithinRange(t, time.Now(), ready, ready.Add(30*time.Second/waitShare+fastInterval), "late by a hundredth")
	})
}

// A text that can mislead is judged by how the webhook stands: a 404 of a pod
// that is being replaced is not held for the short grace only.
func TestGateJudgesByTheLadder(t *testing.T) {
	notFound := `Internal error occurred: failed calling webhook "v.example.io": failed to call webhook: the server could not find the requested resource`
	for name, tc := range map[string]struct {
		ready string
		limit time.Duration
	}{
		"a version that lacks the path":     {"True", 5 * time.Second},
		"while its pods are being replaced": {"False", 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, fmt.Sprintf(configuration, 1, authority(t)), fmt.Sprintf(endpoint, 1, true), `
apiVersion: v1
kind: Service
metadata: {name: w, namespace: ns, resourceVersion: "1"}
spec: {selector: {app: w}, ports: [{port: 443}]}`, `
apiVersion: v1
kind: Pod
metadata: {name: w-1, namespace: ns, resourceVersion: "1", labels: {app: w}}
status: {phase: Running, conditions: [{type: Ready, status: "`+tc.ready+`"}]}`)
				view := survey.New(c.client)
				defer view.Close()
				tr := &Transport{
					Base: &apiServer{answer: readyAfter(time.Hour, notFound)}, Gate: NewGate(view),
					Timeout: 20 * time.Second, Grace: 5 * time.Second,
				}
				_, err := tr.RoundTrip(create(t.Context(), t, "w1"))
				var held *Error
				require.ErrorAs(t, err, &held)
				require.Equal(t, tc.limit, held.Limit)
			})
		})
	}
}

// A webhook whose pods never get their image is not held for until the timeout: how long
// depends on how certain that is. One pod that has its image is reason enough to wait.
func TestGateGivesUpForImages(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: w-%d, namespace: ns, resourceVersion: "1", labels: {app: w}}
status: {phase: Pending, containerStatuses: [{name: c, state: {%s}}]}`
	waiting := func(i int, reason, message string) string {
		return fmt.Sprintf(pod, i, fmt.Sprintf("waiting: {reason: %s, message: %q}", reason, message))
	}
	for name, tc := range map[string]struct {
		pods  []string
		limit time.Duration
	}{
		"that must not be pulled":      {[]string{waiting(1, "ErrImageNeverPull", "")}, 0},
		"that is not there":            {[]string{waiting(1, "ImagePullBackOff", "manifest unknown")}, time.Minute},
		"that wants a password":        {[]string{waiting(1, "ErrImagePull", "401 Unauthorized")}, 2 * time.Minute},
		"that one pod may still get":   {[]string{waiting(1, "ErrImageNeverPull", ""), waiting(2, "ErrImagePull", "connection refused")}, 2 * time.Minute},
		"that one pod has":             {[]string{waiting(1, "ErrImageNeverPull", ""), fmt.Sprintf(pod, 2, "running: {}")}, 5 * time.Minute},
		"that nobody asked for so far": {[]string{waiting(1, "ContainerCreating", "")}, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, append(tc.pods, fmt.Sprintf(configuration, 1, authority(t)), fmt.Sprintf(endpoint, 1, false), `
apiVersion: v1
kind: Service
metadata: {name: w, namespace: ns, resourceVersion: "1"}
spec: {selector: {app: w}, ports: [{port: 443}]}`)...)
				view := survey.New(c.client)
				defer view.Close()
				tr := &Transport{
					Base: &apiServer{answer: readyAfter(time.Hour, refused)}, Gate: NewGate(view), Timeout: 5 * time.Minute,
					Images: map[webhook.ImageFault]time.Duration{webhook.ImageUnusable: 0, webhook.ImageAbsent: time.Minute, webhook.ImageRefused: 2 * time.Minute},
				}
				began := time.Now()
				_, err := tr.RoundTrip(create(t.Context(), t, "w1"))
				var held *Error
				require.ErrorAs(t, err, &held)
				require.Equal(t, tc.limit, held.Limit)
				require.InDelta(t, tc.limit, time.Since(began), float64(2*time.Second))
			})
		})
	}
}
