package survey_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

func TestWatchForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration, fmt.Sprintf(service, "a"))
		var allowed atomic.Bool
		b.on("watch", "*", func() error {
			if allowed.Load() {
				return nil
			}
			return forbidden()
		})
		f := b.follow()
		synctest.Wait()
		require.True(t, f.Synced())
		require.Equal(t, []string{
			"may not watch endpointslices in namespace ns: listing them every 2s",
			"may not watch mutatingwebhookconfigurations: listing them every 2s",
			"may not watch pods in namespace ns: listing them every 2s",
			"may not watch services in namespace ns: listing them every 2s",
			"may not watch validatingwebhookconfigurations: listing them every 2s",
		}, b.survey.Polled())
		require.Empty(t, b.survey.Unreadable())

		b.create(fmt.Sprintf(endpoint, 1, true))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, webhook.Ready, b.reading(f, webhook.Backed).State)

		changes := b.changes.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, changes, b.changes.Load(), "lists that show nothing new are no change")
		require.Equal(t, 32, b.count("list", "endpointslices"))

		allowed.Store(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Empty(t, b.survey.Polled(), "it watches when it may")
	})
}

// Configurations that may not be listed are told from those that cannot be, now.
func TestHidden(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		why    string
		denied bool
	}{
		"forbidden": {forbidden(), "may not list validatingwebhookconfigurations", true},
		"away":      {errors.New("connection refused"), "cannot list validatingwebhookconfigurations: connection refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				configurations := resources["ValidatingWebhookConfiguration"]
				b := newBench(t, configuration)
				var readable atomic.Bool
				b.on("list", configurations.Resource, func() error {
					if readable.Load() {
						return nil
					}
					return tt.err
				})
				why, denied := b.survey.Unlisted(configurations)
				require.Empty(t, why, "nobody wants them")
				require.False(t, denied)
				b.follow()
				synctest.Wait()
				why, denied = b.survey.Unlisted(configurations)
				require.Equal(t, tt.why, why)
				require.Equal(t, tt.denied, denied)

				readable.Store(true)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				why, denied = b.survey.Unlisted(configurations)
				require.Empty(t, why)
				require.False(t, denied)
			})
		})
	}
}

func TestListForbidden(t *testing.T) {
	for resource, want := range map[string]struct {
		rung   webhook.Rung
		unread string
	}{
		"services":       {webhook.Routed, "may not list services in namespace ns"},
		"endpointslices": {webhook.Backed, "may not list endpointslices in namespace ns"},
	} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, configuration, fmt.Sprintf(service, "a"), fmt.Sprintf(endpoint, 1, true))
				var allowed atomic.Bool
				b.on("list", resource, func() error {
					if allowed.Load() {
						return nil
					}
					return forbidden()
				})
				f := b.follow()
				synctest.Wait()
				require.True(t, f.Synced(), "what cannot be read is not waited for")
				r := b.reading(f, want.rung)
				require.Equal(t, webhook.Unknown, r.State)
				require.Equal(t, want.unread, r.Reason)
				require.Equal(t, []string{want.unread}, b.survey.Unreadable())

				allowed.Store(true)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				require.Equal(t, webhook.Ready, b.reading(f, want.rung).State)
				require.Empty(t, b.survey.Unreadable())
			})
		})
	}
}

func TestConfigurationsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, fmt.Sprintf(service, "a"), fmt.Sprintf(endpoint, 1, true))
		b.on("list", "mutatingwebhookconfigurations", forbidden)
		fault := webhook.ClassifyError(errors.New(`Internal error occurred: failed calling webhook "w.example.io": failed to call webhook: Post "https://w.ns.svc:443/?timeout=10s": dial tcp 10.96.0.9:443: connect: connection refused`))
		f := b.survey.Subscribe(survey.Target{Fault: &fault}, func() {})
		defer f.Close()
		synctest.Wait()
		require.True(t, f.Synced())
		r := b.reading(f, webhook.Configured)
		require.Equal(t, webhook.Unknown, r.State)
		require.Equal(t, "may not list mutatingwebhookconfigurations", r.Reason)
		require.Equal(t, webhook.Ready, b.reading(f, webhook.Backed).State, "the fault names the Service")
	})
}

func TestMissedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration, fmt.Sprintf(service, "a"))
		deaf(b, "endpointslices")
		f := b.follow()
		synctest.Wait()
		b.create(fmt.Sprintf(endpoint, 1, true))
		time.Sleep(29 * time.Second)
		require.Equal(t, webhook.Waiting, b.reading(f, webhook.Backed).State)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, webhook.Ready, b.reading(f, webhook.Backed).State)
	})
}

func TestWatchesThatEndAtOnceDoNotSpin(t *testing.T) {
	for name, answer := range map[string]func() (watch.Interface, error){
		"closed": func() (watch.Interface, error) {
			w := watch.NewFake()
			w.Stop()
			return w, nil
		},
		"gone": func() (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			w.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
			return w, nil
		},
		"refused": func() (watch.Interface, error) { return nil, errors.New("connection refused") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, configuration)
				b.client.PrependWatchReactor("services", func(clienttesting.Action) (bool, watch.Interface, error) {
					w, err := answer()
					return true, w, err
				})
				b.follow()
				time.Sleep(10 * time.Second)
				require.InDelta(t, 20, b.count("list", "services"), 1)
			})
		})
	}
}

func TestServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration)
		var back atomic.Bool
		b.on("list", "validatingwebhookconfigurations", func() error {
			if back.Load() {
				return nil
			}
			return errors.New("connection refused")
		})
		f := b.follow()
		synctest.Wait()
		require.Equal(t, []string{"cannot list validatingwebhookconfigurations: connection refused"}, b.survey.Unreadable())
		time.Sleep(time.Minute)
		require.InDelta(t, 35, b.count("list", "validatingwebhookconfigurations"), 2, "soon at first, then every 2 s")
		back.Store(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, f.Statuses(), 1)
		require.Empty(t, b.survey.Unreadable())
	})
}

func TestSecretsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, configuration, fmt.Sprintf(service, "a"), fmt.Sprintf(pod, "a"))
		b.on("get", "secrets", forbidden)
		f := b.follow()
		synctest.Wait()
		require.True(t, f.Synced())
		require.Equal(t, "it was not called yet; may not get secrets in namespace ns", b.reading(f, webhook.Serving).Reason)
		require.Equal(t, []string{"may not get secrets in namespace ns"}, b.survey.Unreadable())
	})
}
