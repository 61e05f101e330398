package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// crowd sends n requests at once and gives when each ended, and how.
func crowd(t *testing.T, tr *Transport, n int) (after []time.Duration, errs []error) {
	t.Helper()
	after, errs = make([]time.Duration, n), make([]error, n)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, errs[i] = tr.RoundTrip(create(t.Context(), t, fmt.Sprintf("w%d", i+10)))
			after[i] = time.Since(start)
		})
	}
	wg.Wait()
	return after, errs
}

// A webhook that turns out to be misconfigured ends the hold of all that wait
// for it after one grace, not of one after the other.
func TestMisconfigurationEndsTheWholeRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			if time.Since(start) < 5*time.Second {
				return internalError(refused), nil
			}
			return internalError(notTrue), nil
		}}
		after, errs := crowd(t, &Transport{Base: server, Gate: NewGate(nil)}, 10)
		for i := range errs {
			var held *Error
			require.ErrorAs(t, errs[i], &held)
			require.Equal(t, DefaultGrace, held.Limit)
			require.Contains(t, held.Fault.Cause, "certificate is valid for other.ns.svc", "all know the last answer")
			require.InDelta(t, 5*time.Second+DefaultGrace, after[i], float64(200*time.Millisecond))
		}
	})
}

// One that was misconfigured and then is merely late holds all of them on.
func TestARowForgetsAMisconfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			switch d := time.Since(start); {
			case d < 2*time.Second:
				return internalError(notTrue), nil
			case d < time.Minute:
				return internalError(refused), nil
			}
			return nil, nil
		}}
		_, errs := crowd(t, &Transport{Base: server, Gate: NewGate(nil)}, 5)
		for _, err := range errs {
			require.NoError(t, err)
		}
	})
}

// While a leader hangs, the next in the row keeps the pace.
func TestPaceBehindALeaderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first, second atomic.Int32
		server := &apiServer{answer: func(body string) (*metav1.Status, error) {
			if strings.Contains(body, "w10") {
				if first.Add(1) > 1 {
					time.Sleep(10 * time.Second)
				}
			} else {
				second.Add(1)
			}
			return internalError(refused), nil
		}}
		crowd(t, &Transport{Base: server, Gate: NewGate(nil), Timeout: 15 * time.Second}, 2)
		require.Less(t, second.Load(), int32(350), "one every 25 ms for two seconds, and every 50 ms after that, whoever leads")
	})
}

// When calls hang, more and more are let go.
func TestManyAtOnceThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			time.Sleep(10 * time.Second)
			return internalError(refused), nil
		}}
		tr := &Transport{Base: server, Gate: NewGate(nil), Timeout: 30 * time.Second}
		go crowd(t, tr, 200)
		for _, most := range []int32{1, 2, 4, 8} {
			synctest.Wait()
			require.LessOrEqual(t, server.inFlight.Load(), most, "after %s", time.Since(start))
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Minute)
	})
}

// A row is let go as fast as it is admitted, and no wider than the API server
// keeps connections to the webhook.
func TestARowIsLetGoInAWidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		const up, takes = 8 * time.Second, 20 * time.Millisecond
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			if time.Since(start) < up {
				return internalError(refused), nil
			}
			time.Sleep(takes)
			return nil, nil
		}}

		after, errs := crowd(t, &Transport{Base: server, Gate: NewGate(nil)}, 200)

		require.NoError(t, errors.Join(errs...))
		require.LessOrEqual(t, server.most.Load(), int32(maxInFlight+maxLeaders))
		require.Less(t, slices.Max(after)-slices.Min(after), 200*takes/maxInFlight+4*takes, "four rounds to grow")
	})
}

// Those that were let go and hang do not keep back the others.
func TestARowPassesThoseThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var admitted atomic.Int32
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			if time.Since(start) < 8*time.Second {
				return internalError(refused), nil
			}
			if n := admitted.Add(1); n > 10 && n <= 10+maxInFlight {
				time.Sleep(time.Minute)
			}
			return nil, nil
		}}

		after, errs := crowd(t, &Transport{Base: server, Gate: NewGate(nil)}, 200)

		require.NoError(t, errors.Join(errs...))
		slices.Sort(after)
		require.Less(t, after[200-1-maxInFlight], 18*time.Second)
	})
}

// Two webhooks at one Service are followed together, and each fault is
// explained by its own.
func TestTwoWebhooksAtOneService(t *testing.T) {
	foreign := strings.NewReplacer("name: c,", "name: foreign,", "v.example.io", "f.example.io", "release-name: op", "release-name: other").Replace(configuration)
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, fmt.Sprintf(configuration, 1, authority(t)), fmt.Sprintf(foreign, 1, ""), service, fmt.Sprintf(endpoint, 1, true))
		view := survey.New(c.client)
		defer view.Close()
		var owners []string
		tr := &Transport{
			Base: &apiServer{answer: readyAfter(time.Hour, strings.ReplaceAll(refused, "v.example.io", "f.example.io"))},
			Gate: NewGate(view), Timeout: 10 * time.Second,
			Notify: func(n Notice) {
				if n.Event == StatusChanged {
					owners = append(owners, n.Status.Owner.String())
				}
			},
		}

		_, err := tr.RoundTrip(create(t.Context(), t, "w1"))

		var held *Error
		require.ErrorAs(t, err, &held)
		require.Equal(t, "Helm release ns/other", held.Status.Owner.String())
		require.Equal(t, []string{"Helm release ns/other"}, owners)
	})
}

// A request that leaves lets those behind it move up.
func TestWhoMovesUpIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(nil)
		f := webhook.Classify(internalError(refused))
		turns := make([]*waiter, 5)
		for i := range turns {
			turns[i] = g.join(nil, f)
		}
		turns[1].leave()
		for i, want := range map[int]int{0: 0, 2: 1, 3: 1, 4: 0} {
			require.Len(t, turns[i].signal, want, "turn %d", i)
		}
	})
}

func TestTransportLetsOneRequestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 20
		server := &apiServer{answer: readyAfter(8*time.Second, refused)}
		tr := &Transport{Base: server, Gate: NewGate(nil)}
		alone := &apiServer{answer: readyAfter(8*time.Second, refused)}

		var wg sync.WaitGroup
		var last atomic.Int64
		start := time.Now()
		for range objects {
			wg.Go(func() {
				_, err := tr.RoundTrip(create(t.Context(), t, "w"))
				require.NoError(t, err)
				last.Store(max(last.Load(), int64(time.Since(start))))
			})
		}
		wg.Go(func() {
			one := &Transport{Base: alone, Gate: NewGate(nil)}
			_, err := one.RoundTrip(create(t.Context(), t, "w"))
			require.NoError(t, err)
		})
		time.Sleep(time.Second)
		server.most.Store(0)
		time.Sleep(6 * time.Second)
		require.EqualValues(t, 1, server.most.Load(), "while the webhook is down, one request is sent at a time")
		wg.Wait()
		// Each of the others costs two sends: the first one, and the one that is admitted.
		require.InDelta(t, alone.sends.Load()+2*(objects-1), server.sends.Load(), 12)
		require.Less(t, time.Duration(last.Load()), 9500*time.Millisecond)
	})
}

func TestTransportLeaderGoesAndTheNextOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: readyAfter(8*time.Second, refused)}
		tr := &Transport{Base: server, Gate: NewGate(nil)}
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("interrupted")
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := tr.RoundTrip(create(ctx, t, "leader"))
			require.ErrorIs(t, err, stop)
			var held *Error
			require.ErrorAs(t, err, &held)
			require.Equal(t, "Widget/demo/leader", held.Request.String())
		})
		time.Sleep(time.Second)
		wg.Go(func() {
			_, err := tr.RoundTrip(create(t.Context(), t, "next"))
			require.NoError(t, err)
		})
		time.Sleep(time.Second)
		cancel(stop)
		wg.Wait()
	})
}
