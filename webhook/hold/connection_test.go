package hold

import (
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/internal/labtest"
)

var errReset = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}

// transportFunc is a function that sends requests.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Whether a create was done cannot be read with credentials that are refused: that
// is said at once, and the webhook is not to blame.
func TestTransportGivesUpOnCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		refusals int
		err      bool
	}{
		"refused once":  {1, false}, // by an API server that has just started, perhaps
		"refused twice": {2, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, broken, refusals := time.Now(), false, 0
				server := &apiServer{exists: func() bool { return false }}
				server.answer = func(string) (*metav1.Status, error) {
					switch {
					case time.Since(start) < time.Second:
						return internalError(refused), nil
					case !broken:
						broken = true
						return nil, errReset
					}
					return nil, nil
				}
				var last Notice
				tr := &Transport{Gate: NewGate(nil), Notify: func(n Notice) { last = n }}
				tr.Base = transportFunc(func(req *http.Request) (*http.Response, error) {
					if req.Method == http.MethodGet && refusals < tc.refusals {
						refusals++
						return &http.Response{StatusCode: http.StatusUnauthorized, Status: "401 Unauthorized", Body: http.NoBody}, nil
					}
					return server.RoundTrip(req)
				})

				_, err := tr.RoundTrip(create(t.Context(), t, "w1"))

				require.Less(t, time.Since(start), 2*time.Second)
				require.Equal(t, Released, last.Event)
				if !tc.err {
					require.NoError(t, err)
					return
				}
				require.True(t, apierrors.IsUnauthorized(err), "%v", err)
				require.ErrorIs(t, err, errReset)
				require.Equal(t, err, last.Err)
				require.EqualError(t, err, "the connection of the create of Widget/demo/w1 broke (read: connection reset by peer), "+
					"and whether it was done cannot be read: the API server refuses the credentials")
			})
		})
	}
}

// errVoid is what a transport says that looks for newer credentials itself.
type errVoid struct{}

func (errVoid) Error() string      { return "the credentials are void" }
func (errVoid) Unauthorized() bool { return true }

// A transport that looks for newer credentials, and finds none, ends the hold too;
// what it was refused was not done.
func TestTransportGivesUpOnItsBasesCredentials(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPatch} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				server := &apiServer{exists: func() bool { return false }, answer: func(string) (*metav1.Status, error) {
					if time.Since(start) < time.Second {
						return internalError(refused), nil
					}
					return nil, errVoid{}
				}}
				tr := &Transport{Base: server, Gate: NewGate(nil)}
				req := create(t.Context(), t, "w1")
				req.Method = method

				_, err := tr.RoundTrip(req)

				require.Equal(t, errVoid{}, err)
				require.Less(t, time.Since(start), 2*time.Second)
			})
		})
	}
}

// The same with an API server that refuses the credentials.
func TestCredentialsThatBecomeVoid(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	admin, ns := lab.Clientset(t), lab.Namespace(t)
	config := rest.AnonymousClientConfig(lab.Config(t))
	config.BearerToken = writer(t, admin, ns)
	own, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	guard(t, admin, ns)
	creates := 0
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return &Transport{Gate: NewGate(nil), Timeout: time.Minute, Base: transportFunc(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPost {
				creates++
			}
			resp, err := base.RoundTrip(req)
			if req.Method != http.MethodPost || creates != 2 {
				return resp, err
			}
			require.NoError(t, admin.CoreV1().ServiceAccounts(ns).Delete(t.Context(), "default", metav1.DeleteOptions{}))
			require.Eventually(t, func() bool { // tokens are remembered for some seconds
				_, err := own.CoreV1().ConfigMaps(ns).Get(t.Context(), "c", metav1.GetOptions{})
				return apierrors.IsUnauthorized(err)
			}, time.Minute, 100*time.Millisecond)
			return nil, errReset
		})}
	})
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	_, err = client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})

	require.True(t, apierrors.IsUnauthorized(err), "%v", err)
	require.NotContains(t, err.Error(), "never answered")
}
