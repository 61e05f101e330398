package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// TestOneRunGetsTheLock lets runs ask for the lock of one plan at the same moment,
// on a real API server, in a namespace that only the first of them makes.
func TestOneRunGetsTheLock(t *testing.T) {
	t.Parallel()
	place := Place{Client: labtest.ControlPlane(t).Clientset(t), Namespace: fmt.Sprintf("lock-%d", time.Now().UnixNano()), Plan: "race"}
	t.Cleanup(func() {
		_ = place.Client.CoreV1().Namespaces().Delete(context.Background(), place.Namespace, metav1.DeleteOptions{})
	})
	for round := range 10 {
		var (
			wait  sync.WaitGroup
			got   atomic.Pointer[Lock]
			held  atomic.Int32
			start = make(chan struct{})
		)
		for i := range 4 {
			wait.Go(func() {
				<-start
				l, err := Acquire(t.Context(), place, Request{Holder: Self(fmt.Sprintf("%d-%d", round, i))})
				if by := (*HeldError)(nil); errors.As(err, &by) {
					held.Add(1)
					return
				}
				assert.NoError(t, err)
				assert.True(t, got.CompareAndSwap(nil, l), "two runs have the lock")
			})
		}
		close(start)
		wait.Wait()
		require.NotNil(t, got.Load())
		assert.EqualValues(t, 3, held.Load())
		require.NoError(t, got.Load().Release(t.Context()))
	}
}

// TestLockOfTheSameSeatIsTakenOver takes the lock of a holder that nobody knows to be gone
// but the one who has its seat now.
func TestLockOfTheSameSeatIsTakenOver(t *testing.T) {
	t.Parallel()
	place := Place{Client: fake.NewClientset(), Namespace: "kplan-system", Plan: "race"}
	before := Holder{Run: "first", Host: "pod-1", Seat: "job/3"}
	_, err := place.take(t.Context(), nil, before)
	require.NoError(t, err)
	for _, seat := range []string{"", "job/4"} {
		other := Self("other")
		other.Seat = seat
		_, err = Acquire(t.Context(), place, Request{Holder: other})
		require.ErrorAs(t, err, new(*HeldError), seat)
	}
	next := Self("second")
	next.Seat = before.Seat
	l, err := Acquire(t.Context(), place, Request{Holder: next})
	require.NoError(t, err)
	require.Contains(t, l.TakenFrom(), "run first on pod-1, since")
	require.NoError(t, l.Release(t.Context()))
	// Who has no seat leaves none behind.
	l, err = Acquire(t.Context(), place, Request{Holder: Self("third")})
	require.NoError(t, err)
	held, err := place.Locked(t.Context())
	require.NoError(t, err)
	require.Empty(t, held.Seat)
	require.NoError(t, l.Release(t.Context()))
}

// TestLockOfAnEndedProcessIsTakenOver ends the process that has the lock.
func TestLockOfAnEndedProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	place := Place{Client: lab.Clientset(t), Namespace: lab.Namespace(t), Plan: "Race of the operators"}

	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	holder := Self("first")
	holder.PID, holder.process = child.Process.Pid, processID(child.Process.Pid)
	require.NotEmpty(t, holder.process)
	_, err := place.take(t.Context(), nil, holder)
	require.NoError(t, err)

	ask := Request{Holder: Self("second")}
	_, err = Acquire(t.Context(), place, ask)
	by := (*HeldError)(nil)
	require.ErrorAs(t, err, &by)
	assert.Equal(t, child.Process.Pid, by.Holder.PID)

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	l, err := Acquire(t.Context(), place, ask)
	require.NoError(t, err)
	assert.Contains(t, l.TakenFrom(), "run first")
	require.NoError(t, l.Release(t.Context()))

	none, err := place.Locked(t.Context())
	require.NoError(t, err)
	assert.Nil(t, none)
}

// TestLockTakenAwayIsLost takes a lock away from a run, which hears of it.
func TestLockTakenAwayIsLost(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	place := Place{Client: lab.Clientset(t), Namespace: lab.Namespace(t), Plan: "race"}
	first, err := Acquire(t.Context(), place, Request{Holder: Self("first")})
	require.NoError(t, err)
	holder, err := place.Locked(t.Context())
	require.NoError(t, err)
	away, err := place.Unlock(t.Context(), Holder{Run: "another"})
	require.NoError(t, err)
	assert.False(t, away, "the lock of another run was taken away")
	away, err = place.Unlock(t.Context(), *holder)
	require.NoError(t, err)
	assert.True(t, away)

	second, err := Acquire(t.Context(), place, Request{Holder: Self("second")})
	require.NoError(t, err)
	select {
	case <-first.Lost():
	case <-time.After(time.Minute):
		t.Fatal("the first run does not hear that its lock is lost")
	}
	lost := (*LostError)(nil)
	require.ErrorAs(t, first.Err(), &lost)
	require.NotNil(t, lost.By)
	assert.Equal(t, "second", lost.By.Run)
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, second.Err(), "what the first gave back was the second's")
	require.NoError(t, second.Release(t.Context()))
}

// TestLockIsGivenBack gives back a lock that its own heartbeat, or somebody else,
// has written to since the run last heard of it.
func TestLockIsGivenBack(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	place := Place{Client: lab.Clientset(t), Namespace: lab.Namespace(t), Plan: "race"}
	l, err := Acquire(t.Context(), place, Request{Holder: Self("this")})
	require.NoError(t, err)
	lease, err := place.read(t.Context())
	require.NoError(t, err)
	lease.Labels = map[string]string{"touched": "yes"}
	_, err = place.Client.CoordinationV1().Leases(place.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
	require.NoError(t, err)

	require.NoError(t, l.Release(t.Context()))

	holder, err := place.Locked(t.Context())
	require.NoError(t, err)
	assert.Nil(t, holder)
}

// TestLockOfASilentHolder has a holder on another machine that was not heard of.
func TestLockOfASilentHolder(t *testing.T) {
	for _, c := range []struct {
		name    string
		age     time.Duration // of its last heartbeat
		beats   bool          // it goes on
		wait    time.Duration
		refused bool
		takes   time.Duration // at most
	}{
		{name: "heard of just now", age: time.Second, refused: true, takes: lookEvery},
		{name: "clock ahead", age: -time.Hour, refused: true, takes: lookEvery},
		{name: "silent", age: time.Hour, takes: 2*renewEvery + 2*lookEvery},
		{name: "clock behind", age: time.Hour, beats: true, refused: true, takes: time.Hour},
		{name: "dies while it is waited for", age: 0, wait: 5 * time.Minute, takes: leaseTime + 2*renewEvery + 2*lookEvery},
		{name: "lives longer than it is waited for", age: 0, beats: true, wait: time.Minute, refused: true, takes: time.Minute + 2*lookEvery},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				place := Place{Client: fake.NewClientset(), Namespace: "ns", Plan: "race"}
				other := Holder{Run: "other", Host: "elsewhere", process: "boot/namespace/1"}
				lease, err := place.take(t.Context(), nil, other)
				require.NoError(t, err)
				write := func(version int) {
					lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-c.age)}
					lease.ResourceVersion = fmt.Sprint(version)
					_, err := place.Client.CoordinationV1().Leases("ns").Update(t.Context(), lease, metav1.UpdateOptions{})
					require.NoError(t, err)
				}
				write(1)
				ctx, stop := context.WithCancel(t.Context()) //nolint:forbidigo // no cause is looked at
				defer stop()
				if c.beats {
					go func() {
						for n := 2; ; n++ {
							select {
							case <-time.After(renewEvery):
								write(n)
							case <-ctx.Done():
								return
							}
						}
					}()
				}
				limit, cancel := context.WithTimeoutCause(ctx, c.takes+time.Minute, errors.New("it waits too long"))
				defer cancel()
				began := time.Now()
				l, err := Acquire(limit, place, Request{Holder: Self("this"), Wait: c.wait})
				took := time.Since(began)
				if c.refused {
					by := (*HeldError)(nil)
					require.ErrorAs(t, err, &by)
					assert.Equal(t, "elsewhere", by.Holder.Host)
				} else {
					require.NoError(t, err)
					require.NoError(t, l.Release(t.Context()))
				}
				assert.LessOrEqual(t, took, c.takes)
			})
		})
	}
}

// TestLockOutlivesAnAPIServerThatIsAway keeps the API server from answering.
func TestLockOutlivesAnAPIServerThatIsAway(t *testing.T) {
	for away, kept := range map[time.Duration]bool{40 * time.Second: true, 2 * time.Minute: false} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				back := time.Now().Add(away)
				client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					if time.Now().Before(back) {
						return true, nil, apierrors.NewServiceUnavailable("it is away")
					}
					return false, nil, nil
				})
				l, err := Acquire(t.Context(), Place{Client: client, Namespace: "ns", Plan: "race"}, Request{Holder: Self("this")})
				require.NoError(t, err)
				time.Sleep(away + time.Minute)
				if kept {
					require.NoError(t, l.Err())
				} else {
					require.ErrorContains(t, l.Err(), "it is away")
				}
				require.NoError(t, l.Release(t.Context()))
			})
		})
	}
}

// TestLockGoesOnOverAnotherConnection gives up the connection over which a lock was taken:
// it is kept, renewed and given back over another one to the same cluster, and not over
// one to somewhere else.
func TestLockGoesOnOverAnotherConnection(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	config := lab.Config(t)
	var cut atomic.Bool
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if cut.Load() {
				return nil, errors.New("the connection is cut")
			}
			return next.RoundTrip(r)
		})
	})
	old, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	place := Place{Client: old, Namespace: lab.Namespace(t), Plan: "race"}
	l, err := Acquire(t.Context(), place, Request{Holder: Self("this")})
	require.NoError(t, err)
	cut.Store(true)

	elsewhere := Place{Client: lab.Clientset(t), Namespace: lab.Namespace(t), Plan: "race"}
	_, err = elsewhere.take(t.Context(), nil, Self("this")) // a Lease of the same name, and the same run
	require.NoError(t, err)
	same, err := l.Continue(t.Context(), elsewhere)
	require.NoError(t, err)
	require.False(t, same)

	fresh := Place{Client: lab.Clientset(t), Namespace: place.Namespace, Plan: "race"}
	before, err := fresh.read(t.Context())
	require.NoError(t, err)
	same, err = l.Continue(t.Context(), fresh)
	require.NoError(t, err)
	require.True(t, same)
	after, err := fresh.read(t.Context())
	require.NoError(t, err)
	require.True(t, after.Spec.RenewTime.After(before.Spec.RenewTime.Time), "it was renewed over the new connection")
	require.Equal(t, before.Spec.LeaseTransitions, after.Spec.LeaseTransitions, "it was never given back")

	require.NoError(t, l.Release(t.Context()))
	holder, err := fresh.Locked(t.Context())
	require.NoError(t, err)
	require.Nil(t, holder)
}

// TestLockOfAnotherDoesNotGoOn takes a lock away before it is looked at over another
// connection.
func TestLockOfAnotherDoesNotGoOn(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	place := Place{Client: lab.Clientset(t), Namespace: lab.Namespace(t), Plan: "race"}
	l, err := Acquire(t.Context(), place, Request{Holder: Self("this")})
	require.NoError(t, err)
	lease, err := place.read(t.Context())
	require.NoError(t, err)
	_, err = place.take(t.Context(), lease, Self("other"))
	require.NoError(t, err)

	_, err = l.Continue(t.Context(), Place{Client: lab.Clientset(t), Namespace: place.Namespace, Plan: "race"})

	lost := (*LostError)(nil)
	require.ErrorAs(t, err, &lost)
	require.Equal(t, "other", lost.By.Run)
	require.ErrorIs(t, l.Err(), lost)
	<-l.Lost()
	require.NoError(t, l.Release(t.Context()))
}

// TestLockOutlivesItsConnection goes on with a lock just before it would be lost.
func TestLockOutlivesItsConnection(t *testing.T) {
	for name, moves := range map[string]bool{"over another one": true, "which is the only one": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				old, fresh := fake.NewClientset(), fake.NewClientset()
				fresh.PrependReactor("*", "*", clienttesting.ObjectReaction(old.Tracker())) // two ways to one cluster
				var away atomic.Bool
				old.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					return away.Load(), nil, apierrors.NewServiceUnavailable("it is away")
				})
				l, err := Acquire(t.Context(), Place{Client: old, Namespace: "ns", Plan: "race"}, Request{Holder: Self("this")})
				require.NoError(t, err)
				away.Store(true)
				time.Sleep(leaseTime - renewEvery)
				if moves {
					same, err := l.Continue(t.Context(), Place{Client: fresh, Namespace: "ns", Plan: "race"})
					require.NoError(t, err)
					require.True(t, same)
				}
				time.Sleep(2 * leaseTime)
				if moves {
					require.NoError(t, l.Err())
				} else {
					require.ErrorContains(t, l.Err(), "it is away")
				}
				require.NoError(t, l.Release(t.Context()))
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestObjectName makes names that Kubernetes takes.
func TestObjectName(t *testing.T) {
	for plan, want := range map[string]string{
		"eso":                   "kplan-eso",
		"Race of the operators": "kplan-race-of-the-operators-",
		"ünï":                   "kplan-n-",
		"":                      "kplan-",
	} {
		name := objectName(plan)
		assert.Contains(t, name, want)
		assert.LessOrEqual(t, len(name), 63)
	}
	assert.NotEqual(t, objectName("a b"), objectName("a-b"))
}
