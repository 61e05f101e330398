package hold

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Two hundred objects that are sent at once meet their webhook by three at
// most until one has passed, and then in growing numbers.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := time.Now().Add(5 * time.Second)
		server := &apiServer{}
		var before atomic.Int32 // the most on their way until the first success
		server.answer = func(string) (*metav1.Status, error) {
			if time.Now().Before(ready) {
				before.Store(max(before.Load(), server.inFlight.Load()))
				return internalError(refused), nil
			}
			return nil, nil
		}
		tr := &Transport{Base: server, Gate: NewGate(nil)}
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				_, err := tr.RoundTrip(create(t.Context(), t, "w"))
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.LessOrEqual(t, before.Load(), int32(3))
		require.Less(t, server.most.Load(), int32(180), "not all at once")
		require.Less(t, time.Since(ready), 200*time.Millisecond)
	})
}

// While nothing fails, only the first round goes by few.
func TestManyAtOnceWithoutAWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: func(string) (*metav1.Status, error) { return nil, nil }}
		tr := &Transport{Base: server, Gate: NewGate(nil)}
		start := time.Now()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				_, err := tr.RoundTrip(create(t.Context(), t, "w"))
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Equal(t, 2*time.Millisecond, time.Since(start), "one round trip later than without a transport")
	})
}

// Writes that hang do not keep others of their kind back for long: these may
// have another webhook, or none.
func TestScoutsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: func(body string) (*metav1.Status, error) {
			if strings.Contains(body, "hangs") {
				time.Sleep(10 * time.Second)
				return internalError(refused), nil
			}
			return nil, nil
		}}
		tr := &Transport{Base: server, Gate: NewGate(nil), Timeout: 30 * time.Second}
		for range 20 {
			go func() { _, _ = tr.RoundTrip(create(t.Context(), t, "hangs")) }()
		}
		time.Sleep(time.Millisecond)
		start := time.Now()
		_, err := tr.RoundTrip(create(t.Context(), t, "other"))
		require.NoError(t, err)
		require.Less(t, time.Since(start), 6*hangTime, "1, 2, 4, 8, 16 and then 32 may be on their way")
		time.Sleep(time.Minute)
	})
}

// A request that waits for the limiter ends with its context.
func TestWaitingForScoutsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: readyAfter(0, "")}
		server.answer = func(string) (*metav1.Status, error) { time.Sleep(500 * time.Millisecond); return nil, nil }
		tr := &Transport{Base: server, Gate: NewGate(nil)}
		for range initialLimit {
			go func() { _, _ = tr.RoundTrip(create(t.Context(), t, "w")) }()
		}
		synctest.Wait()
		stop := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(stop)
		_, err := tr.RoundTrip(create(ctx, t, "w"))
		require.ErrorIs(t, err, stop)
		time.Sleep(time.Second)
	})
}

// When the leader hangs, at a pod that is gone for example, the next request
// tries as well, and lets the others go when it is answered.
func TestALeaderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var hung atomic.Bool
		server := &apiServer{answer: func(string) (*metav1.Status, error) {
			switch {
			case time.Since(start) < 3*time.Second:
				return internalError(refused), nil
			case hung.CompareAndSwap(false, true):
				time.Sleep(10 * time.Second)
				return internalError(strings.Replace(refused, "dial tcp 10.96.0.9:443: connect: connection refused", "context deadline exceeded", 1)), nil
			}
			return nil, nil
		}}
		tr := &Transport{Base: server, Gate: NewGate(nil)}
		var wg sync.WaitGroup
		var done atomic.Int32
		for range 20 {
			wg.Go(func() {
				_, err := tr.RoundTrip(create(t.Context(), t, "w"))
				require.NoError(t, err)
				done.Add(1)
			})
		}
		time.Sleep(3*time.Second + hangTime + 200*time.Millisecond)
		require.EqualValues(t, 19, done.Load(), "all but the one that hangs")
		wg.Wait()
	})
}
