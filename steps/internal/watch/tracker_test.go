package watch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

var widgetKind = schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}

// widget is an object whose label "state" is its reading.
func widget(name string, state ReadingState) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(widgetKind)
	u.SetName(name)
	u.SetUID(types.UID(name + "-uid"))
	u.SetLabels(map[string]string{"state": string(state)})
	return u
}

func byLabel(_ Target, u *unstructured.Unstructured) Reading {
	if u == nil {
		return waiting("not found")
	}
	return Reading{State: ReadingState(u.GetLabels()["state"]), Reason: u.GetLabels()["state"], Recoverable: u.GetLabels()["recoverable"] != ""}
}

func boardOf(w Wait) (*tracker, listing) {
	s := &cluster.Session{Cluster: cluster.Unconnected("default")}
	if w.Judge == nil {
		w.Judge = byLabel
	}
	return newTracker(s, w), w.Targets[0].listing(s)
}

func named(names ...string) []Target {
	var out []Target
	for _, n := range names {
		out = append(out, Target{Kind: widgetKind, Name: n})
	}
	return out
}

func TestBoardIsDoneWhenAllAreReady(t *testing.T) {
	b, f := boardOf(Wait{Targets: named("a", "b")})
	require.Equal(t, map[listing][]string{f: {"a", "b"}}, b.listings(), "one list serves both")

	b.take(update{listing: f, list: []*unstructured.Unstructured{widget("a", Reached), widget("stranger", Waiting)}})
	done, err := b.verdict()
	require.False(t, done)
	require.NoError(t, err)
	require.Equal(t, "widget/b: not found", b.pendingText())

	b.take(update{listing: f, object: widget("b", Reached)})
	done, err = b.verdict()
	require.True(t, done)
	require.NoError(t, err)
}

func TestBoardKeepsReadyWhatIsGone(t *testing.T) {
	b, f := boardOf(Wait{Targets: named("job", "other")})
	b.take(update{listing: f, list: []*unstructured.Unstructured{widget("job", Reached)}})
	b.take(update{listing: f, object: widget("job", Reached), deleted: true})
	require.Equal(t, "widget/other: not found", b.pendingText())

	b.take(update{listing: f, object: widget("other", Reached)})
	b.take(update{listing: f, object: widget("other", Waiting)})
	require.Equal(t, "widget/other: waiting", b.pendingText(), "but what is there and not ready any more counts")
}

func TestBoardFailsAtOnce(t *testing.T) {
	b, f := boardOf(Wait{Targets: named("a", "b")})
	b.take(update{listing: f, list: []*unstructured.Unstructured{widget("b", Failed)}})
	done, err := b.verdict()
	require.True(t, done)
	failure := (*FailedError)(nil)
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "widget/b: failed", err.Error())
}

func TestBoardEnduresAFailureThatWasThereBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := widget("a", Failed)
		broken.SetLabels(map[string]string{"state": string(Failed), "recoverable": "yes"})
		b, f := boardOf(Wait{Targets: named("a")})
		b.take(update{listing: f, list: []*unstructured.Unstructured{broken}})
		done, _ := b.verdict()
		require.False(t, done, "it may be of an earlier run")

		began := time.Now()
		<-b.due()
		require.Equal(t, recovery, time.Since(began))
		b.judgeAll()
		done, err := b.verdict()
		require.True(t, done)
		require.EqualError(t, err, "widget/a: failed")
	})
	t.Run("but not one that comes later", func(t *testing.T) {
		broken := widget("a", Failed)
		broken.SetLabels(map[string]string{"state": string(Failed), "recoverable": "yes"})
		b, f := boardOf(Wait{Targets: named("a")})
		b.take(update{listing: f, list: []*unstructured.Unstructured{widget("a", Waiting)}})
		b.take(update{listing: f, object: broken})
		done, err := b.verdict()
		require.True(t, done)
		require.EqualError(t, err, "widget/a: failed")
	})
}

// A state that must last counts once it has, and from the start when it came back.
func TestBoardTakesOnlyWhatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		b, f := boardOf(Wait{Targets: named("web", "db"), Judge: func(target Target, u *unstructured.Unstructured) Reading {
			r := byLabel(target, u)
			if r.State == Reached && target.Name == "web" {
				r.Lasting = 2 * time.Second
			}
			return r
		}, Changed: func(c Change) { told = append(told, c.Target.String()+": "+c.Reading.Reason) }})
		b.take(update{listing: f, list: []*unstructured.Unstructured{widget("web", Waiting), widget("db", Reached)}})
		b.take(update{listing: f, object: widget("web", Reached)})
		require.Equal(t, "widget/web: waiting", b.pendingText())
		time.Sleep(time.Second)
		b.take(update{listing: f, object: widget("web", Waiting)})
		b.take(update{listing: f, object: widget("web", Reached)})
		<-b.due()
		b.judgeAll()
		require.Equal(t, "widget/web: waiting", b.pendingText(), "the first time did not last")
		began := time.Now()
		<-b.due()
		require.Equal(t, time.Second, time.Since(began))
		b.judgeAll()
		done, err := b.verdict()
		require.True(t, done)
		require.NoError(t, err)
		require.Equal(t, []string{"widget/web: waiting", "widget/db: ready", "widget/web: ready"}, told, "nothing is told of what did not last")
	})
}

func TestBoardTellsOfTrouble(t *testing.T) {
	var told []string
	b, f := boardOf(Wait{Targets: named("a", "b"), Changed: func(c Change) {
		told = append(told, c.Target.String()+": "+c.Reading.Reason)
	}})
	b.take(update{listing: f, list: []*unstructured.Unstructured{widget("a", Reached)}})
	b.take(update{listing: f, trouble: "cannot be read:\nconversion webhook"})
	require.Equal(t, "widget/b: cannot be read: conversion webhook", b.pendingText())
	b.take(update{listing: f, list: []*unstructured.Unstructured{widget("a", Reached), widget("b", Waiting)}})
	require.Equal(t, []string{
		"widget/a: ready", "widget/b: not found", "widget/b: cannot be read: conversion webhook", "widget/b: waiting",
	}, told)
}

// What became ready last is not what is waited for: that is told again.
func TestBoardTellsWhatIsStillWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		b, f := boardOf(Wait{Targets: named("settings", "web", "db"), Changed: func(c Change) {
			told = append(told, fmt.Sprintf("%s: %s %d/%d", c.Target, c.Reading.Reason, c.Ready, c.Total))
		}})
		next := func(states ...ReadingState) []string {
			told = nil
			b.take(update{listing: f, list: []*unstructured.Unstructured{
				widget("settings", states[0]), widget("web", states[1]), widget("db", states[2]),
			}})
			synctest.Wait()
			select {
			case <-b.reminder():
				b.remind()
			case <-time.After(time.Minute):
			}
			return told
		}
		require.Equal(t, []string{"widget/settings: waiting 0/3", "widget/web: waiting 0/3", "widget/db: waiting 0/3"},
			next(Waiting, Waiting, Waiting), "all are waited for")
		require.Equal(t, []string{"widget/settings: ready 1/3", "widget/web: waiting 1/3"}, next(Reached, Waiting, Waiting))
		require.Empty(t, next(Reached, Waiting, Waiting), "once")
		require.Equal(t, []string{"widget/web: ready 2/3", "widget/db: waiting 2/3"}, next(Reached, Reached, Waiting))
		require.Equal(t, []string{"widget/db: ready 3/3"}, next(Reached, Reached, Reached), "nothing is waited for")
	})
}

func TestBoardSelector(t *testing.T) {
	b, f := boardOf(Wait{Targets: []Target{{Kind: widgetKind, Selector: "app=x"}}})
	require.Equal(t, map[listing][]string{f: nil}, b.listings())
	b.take(update{listing: f})
	require.Equal(t, "widget/app=x: not found", b.pendingText(), "there must be one")
	b.take(update{listing: f, object: widget("b", Waiting)})
	b.take(update{listing: f, object: widget("a", Reached)})
	require.Equal(t, "widget/app=x: 1 of 2; b: waiting", b.pendingText())
	b.take(update{listing: f, object: widget("b", Waiting), deleted: true})
	done, err := b.verdict()
	require.True(t, done)
	require.NoError(t, err)
}

func TestBoardDeletion(t *testing.T) {
	absent := func(_ Target, u *unstructured.Unstructured) Reading {
		if u == nil {
			return reached("gone")
		}
		return waiting("there")
	}
	anew := widget("a", Waiting)
	anew.SetUID("another")

	t.Run("an object of the same name that comes later is not meant", func(t *testing.T) {
		b, f := boardOf(Wait{Targets: named("a"), Judge: absent, Deletion: true})
		b.take(update{listing: f, list: []*unstructured.Unstructured{widget("a", Waiting)}})
		require.Equal(t, "widget/a: there", b.pendingText())
		b.take(update{listing: f, list: []*unstructured.Unstructured{anew}})
		done, err := b.verdict()
		require.True(t, done)
		require.NoError(t, err)
	})
	t.Run("nor are others with the same labels", func(t *testing.T) {
		b, f := boardOf(Wait{Targets: []Target{{Kind: widgetKind, Selector: "app=x"}}, Judge: absent, Deletion: true})
		b.take(update{listing: f, list: []*unstructured.Unstructured{widget("a", Waiting)}})
		b.take(update{listing: f, object: widget("b", Waiting)})
		b.take(update{listing: f, object: widget("a", Waiting), deleted: true})
		done, _ := b.verdict()
		require.True(t, done)
	})
	t.Run("names that are looked at one by one each have a first look", func(t *testing.T) {
		b, f := boardOf(Wait{Targets: named("a", "b"), Judge: absent, Deletion: true})
		b.take(update{listing: f, names: []string{"a"}, list: []*unstructured.Unstructured{widget("a", Waiting)}})
		require.Equal(t, "widget/a: there; widget/b: not looked at yet", b.pendingText())
		b.take(update{listing: f, names: []string{"b"}, list: []*unstructured.Unstructured{widget("b", Waiting)}})
		require.Equal(t, "widget/a: there; widget/b: there", b.pendingText())
		b.take(update{listing: f, names: []string{"b"}})
		require.Equal(t, "widget/a: there", b.pendingText())
	})
}
