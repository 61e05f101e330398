package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// story is the events of a run whose steps end in states; a step without one
// does not start, and the run of a story without an end was killed.
func story(run string, ended bool, states ...runner.State) []runner.Event {
	at := time.Date(2026, 11, 22, 16, 10, 30, 0, time.UTC)
	events := []runner.Event{{Type: runner.TypePlan, Version: runner.EventVersion, Run: run, Plan: "p", Message: "here"}}
	for i, s := range states {
		name := string(rune('a' + i))
		events[0].Steps = append(events[0].Steps, runner.StepInfo{Name: name, Kind: "apply"})
		if s == "" {
			continue
		}
		object := runner.Applied{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: name, Created: s == runner.StateSucceeded}
		events = append(events,
			runner.Event{Type: runner.TypeState, Step: name, State: runner.StateRunning, Attempt: 1, Attempts: 1},
			runner.Event{Type: runner.TypeResult, Step: name, Digest: "of " + name, Objects: []runner.Applied{object}},
			runner.Event{Type: runner.TypeState, Step: name, State: s, Attempt: 1, Attempts: 1})
	}
	if ended {
		events = append(events, runner.Event{Type: runner.TypeDone, State: runner.StateSucceeded})
	}
	for i := range events {
		events[i].Seq, events[i].Time = i+1, at.Add(time.Duration(i)*time.Second)
	}
	return events
}

// TestRecordsBuildOnOneAnother checks what a record knows of runs before its own.
func TestRecordsBuildOnOneAnother(t *testing.T) {
	first := Fold(story("1", true, runner.StateSucceeded, runner.StateSucceeded, runner.StateSucceeded), nil)
	second := Fold(story("2", false, runner.StateUnchanged, ""), first)

	assert.Equal(t, "1", second.Step("a").Done.Run, "it was done then, and is unchanged")
	assert.True(t, second.Step("a").Objects[0].Created, "an earlier run made it")
	assert.Equal(t, "1", second.Step("b").Done.Run, "it did not start in this run")
	require.Len(t, second.Former, 1)
	assert.Equal(t, "c", second.Former[0].Name, "the plan does not have it any more")

	third := Fold(story("3", true, runner.StateFailed, runner.StateFailed), second)
	assert.Nil(t, third.Step("b").Done, "what failed is not done, whatever was before")
	assert.Len(t, third.Step("b").Objects, 1)
	require.Len(t, third.Former, 1)

	moved := story("4", true, runner.StateSucceeded, runner.StateSucceeded)
	moved[2].Objects[0].Name = "other"
	fourth := Fold(moved, third)
	require.Len(t, fourth.Step("a").Left, 1)
	assert.Equal(t, "a", fourth.Step("a").Left[0].Name, "the step made it, and does not have it any more")
}

// TestFolderAfterAKill reads what a run left that was killed while it wrote.
func TestFolderAfterAKill(t *testing.T) {
	f := FolderOf(t.TempDir())
	runs := []string{"20261122-161030-000001", "20261122-161031-000002"}
	for i, run := range runs {
		j, err := f.Begin(run)
		require.NoError(t, err)
		states := []runner.State{runner.StateSucceeded, ""}
		for _, e := range story(run, i == 0, states...) {
			j.Observe(e)
		}
		require.NoError(t, j.Close())
	}
	file, err := os.OpenFile(f.Path(runs[1]), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"seq":5,"time":"2026-`)
	require.NoError(t, errors.Join(err, file.Close()))

	all, err := f.List("p")
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, runs[1], all[0].Run)
	assert.False(t, all[0].Over())
	assert.Equal(t, map[runner.State]int{runner.StateSucceeded: 1, runner.StatePending: 1}, all[0].Counts)
	assert.True(t, all[1].Over())

	latest, err := f.Latest("p", "here")
	require.NoError(t, err)
	assert.Equal(t, runs[1], latest.Step("a").Done.Run)
	elsewhere, err := f.Latest("p", "another cluster")
	require.NoError(t, err)
	assert.Nil(t, elsewhere)
	ignored, err := os.ReadFile(filepath.Join(string(f), ".gitignore"))
	require.NoError(t, err)
	assert.Equal(t, "*\n", string(ignored))
}

// TestFullDisk writes to a device that has no room.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	j := newJournal(full)
	for _, e := range story("1", true, runner.StateSucceeded) {
		j.Observe(e)
	}
	require.ErrorIs(t, j.Close(), syscall.ENOSPC)
}

// TestRecordInACluster keeps records on a real API server: of one run as it goes on,
// of a large one in several Secrets, and of no more runs than are kept.
func TestRecordInACluster(t *testing.T) {
	t.Parallel()
	place := Place{Client: labtest.ControlPlane(t).Clientset(t), Namespace: fmt.Sprintf("record-%d", time.Now().UnixNano()), Plan: "p"}
	t.Cleanup(func() {
		_ = place.Client.CoreV1().Namespaces().Delete(context.Background(), place.Namespace, metav1.DeleteOptions{})
	})
	store := Store{Place: &place}
	var past Past
	for i := range recordsKept + 2 {
		var err error
		past, err = store.Past(t.Context(), "p", "here")
		require.NoError(t, err)
		run := fmt.Sprintf("20261122-1610%02d-000000", i)
		recording, err := store.Begin(t.Context(), run, past)
		require.NoError(t, err)
		events := story(run, true, runner.StateSucceeded)
		if i == recordsKept+1 { // does not get smaller, and so takes several Secrets
			noise := rand.NewChaCha8([32]byte{})
			for range 40 {
				b := make([]byte, 32<<10)
				_, _ = noise.Read(b)
				events = append(events[:3:3], append([]runner.Event{{Type: runner.TypeProgress, Step: "a", Message: fmt.Sprintf("%x", b)}}, events[3:]...)...)
			}
		}
		for _, e := range events {
			recording.Observers[0].Observe(e)
		}
		require.NoError(t, recording.Close())
	}
	entries, err := place.Records(t.Context())
	require.NoError(t, err)
	require.Len(t, entries, recordsKept)
	assert.Equal(t, 2, entries[0].parts)
	assert.Equal(t, map[runner.State]int{runner.StateSucceeded: 1}, entries[0].Counts)
	r, key, err := place.Record(t.Context(), entries[0])
	require.NoError(t, err)
	assert.Len(t, r.Events, 5+40)
	assert.Equal(t, past.Key, key, "all runs of a plan have one")

	secrets, err := place.Client.CoreV1().Secrets(place.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: labelRun})
	require.NoError(t, err)
	require.Len(t, secrets.Items, recordsKept+1)
	for _, s := range secrets.Items {
		assert.Equal(t, secretType, s.Type)
		assert.True(t, *s.Immutable, "the run is over")
		assert.Equal(t, string(runner.StateSucceeded), s.Labels[labelState])
		assert.False(t, strings.Contains(s.Annotations[annotationSummary], "of a"), "a list has no digests")
	}
}
