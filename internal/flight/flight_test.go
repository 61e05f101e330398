package flight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/flight"
)

// Whoever wants the same meanwhile gets the same, from one call.
func TestDoShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			g     flight.Group[int]
			calls int
			got   = make(chan int, 3)
		)
		for range 3 {
			go func() {
				n, _ := g.Do(t.Context(), "", func(context.Context) (int, error) {
					calls++
					time.Sleep(time.Second)
					return calls, nil
				})
				got <- n
			}()
		}
		require.Equal(t, []int{1, 1, 1}, []int{<-got, <-got, <-got})
	})
}

// A call that its maker gives up says nothing to the others: one of them makes it.
func TestDoOutlivesItsMaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string]
		stopped := errors.New("stopped")
		first, stop := context.WithCancelCause(t.Context())
		slow := func(ctx context.Context) (string, error) {
			select {
			case <-time.After(time.Minute):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		gaveUp := make(chan error, 1)
		go func() {
			_, err := g.Do(first, "", slow)
			gaveUp <- err
		}()
		synctest.Wait()
		time.AfterFunc(time.Second, func() { stop(stopped) })

		v, err := g.Do(t.Context(), "", slow)

		require.NoError(t, err)
		require.Equal(t, "done", v)
		require.ErrorIs(t, <-gaveUp, stopped)
	})
}
