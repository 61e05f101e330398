package match_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"pgregory.net/rapid"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// fatal is what testing.T and rapid.T have in common.
type fatal interface {
	require.TestingT
	Fatalf(string, ...any)
}

// administrator may do all, as the test's user in the cluster.
var administrator = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
})

// TestServerAgrees draws webhooks and requests, sends the requests to a real
// API server as dry runs, and compares whom it called with the prediction.
//
// The cases are the same each time. To try others: -rapid.seed=N -rapid.checks=N.
func TestServerAgrees(t *testing.T) {
	g := newGround(t)
	t.Cleanup(g.forget)
	fix(t, "rapid.seed", "1")
	fix(t, "rapid.checks", "80")
	fix(t, "rapid.nofailfile", "true")
	matcher := &match.Matcher{Cluster: g.cluster}
	counts := map[match.Outcome]int{}
	rapid.Check(t, func(rt *rapid.T) {
		hooks := rapid.SliceOfN(rapid.Custom(g.drawHook), 3, 10).Draw(rt, "webhooks")
		for i := range hooks {
			hooks[i].name(g, i)
		}
		g.configure(rt, hooks)
		entries := g.entries(rt)
		for range rapid.IntRange(4, 10).Draw(rt, "requests") {
			op := g.drawOperation(rt)
			for _, e := range entries {
				if strings.HasPrefix(e.Name, "marker.") {
					continue
				}
				v := matcher.Match(context.Background(), e, op.request)
				counts[v.Outcome]++
				ignorant(rt, e, op.request, v)
			}
			hits := matcher.Filter(context.Background(), entries, op.request)
			g.recorder.take()
			err := op.send(g)
			compare(rt, op, hits, g.recorder.take(), err)
		}
	})
	t.Logf("predictions: %v", counts)
	for _, o := range []match.Outcome{match.Calls, match.Skips, match.Rejects, match.Maybe} {
		require.NotZero(t, counts[o], "no case of %q was drawn", o)
	}
}

// fix sets a flag that the command line leaves open.
func fix(t *testing.T, name, value string) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		before := flag.Lookup(name).Value.String()
		require.NoError(t, flag.Set(name, value))
		t.Cleanup(func() { _ = flag.Set(name, before) })
	}
}

// compare checks the calls of one request against its predicted hits.
func compare(t *rapid.T, op operation, hits []match.Hit, calls []call, err error) {
	told := fmt.Sprintf("%s\nerror: %v\ncalls: %v\nhits:", op, err, calls)
	for _, h := range hits {
		told += fmt.Sprintf("\n  %s: %+v", h.Entry, h.Verdict)
	}
	mutating := slices.DeleteFunc(slices.Clone(hits), func(h match.Hit) bool { return h.Entry.Kind != webhook.Mutating })
	rest := hits[len(mutating):]
	walk := &walk{t: t, err: err, calls: calls, told: told}
	if rejected := walk.mutating(mutating); rejected {
		require.Error(t, err, told)
		require.Empty(t, walk.calls, told)
		return
	}
	if op.request.Object != nil { // a webhook cannot change what is deleted
		walk.again()
	}
	rejected := walk.validating(rest)
	require.Empty(t, walk.calls, told)
	require.Equal(t, rejected, err != nil, told)
}

// walk goes through the calls of one request.
type walk struct {
	t     *rapid.T
	err   error  // what the API server answered
	calls []call // which are not accounted for
	seen  []match.Hit
	told  string
}

func path(h match.Hit) string {
	_, p, _ := strings.Cut(strings.TrimPrefix(*h.Entry.Client.URL, "https://"), "/")
	return "/" + p
}

// next takes a call of a webhook off the front, if that is what comes.
func (w *walk) next(h match.Hit) bool {
	if len(w.calls) == 0 || w.calls[0].webhook != path(h) {
		return false
	}
	require.Equal(w.t, h.Verdict.Resource, w.calls[0].resource, w.told)
	w.calls, w.seen = w.calls[1:], append(w.seen, h)
	return true
}

// mutating accounts for the first round, and tells whether a webhook ended it.
func (w *walk) mutating(hits []match.Hit) (rejected bool) {
	for _, h := range hits {
		switch h.Verdict.Outcome {
		case match.Rejects:
			return true
		case match.Maybe:
			if !w.next(h) && w.refused() {
				return true
			}
		default:
			require.True(w.t, w.next(h), "%s should be called\n%s", h.Entry, w.told)
		}
	}
	return false
}

// refused tells whether the request ended here: a webhook that Maybe is
// called may have a condition that fails.
func (w *walk) refused() bool { return w.err != nil && len(w.calls) == 0 }

// again accounts for the second round: of the webhooks that may be called
// again, those that were called and after which another changed the object.
func (w *walk) again() {
	first := w.seen
	for i, h := range first {
		changed := slices.ContainsFunc(first[i+1:], func(later match.Hit) bool { return strings.HasSuffix(path(later), "/patch") })
		if h.Verdict.Again && changed {
			require.True(w.t, w.next(h), "%s should be called again\n%s", h.Entry, w.told)
		}
	}
}

// validating accounts for calls that come in any order.
func (w *walk) validating(hits []match.Hit) (rejected bool) {
	// A failing condition ends the request before any is called.
	for _, h := range hits {
		if h.Verdict.Outcome == match.Rejects || h.Verdict.Outcome == match.Maybe && w.refused() {
			return true
		}
	}
	for _, h := range hits {
		i := slices.IndexFunc(w.calls, func(c call) bool { return c.webhook == path(h) })
		if h.Verdict.Outcome == match.Calls {
			require.NotEqual(w.t, -1, i, "%s should be called\n%s", h.Entry, w.told)
		}
		if i >= 0 {
			require.Equal(w.t, h.Verdict.Resource, w.calls[i].resource, w.told)
			w.calls = slices.Delete(w.calls, i, i+1)
		}
	}
	return false
}

// ignorant checks that who knows less does not know better: the verdict is
// the same, or Maybe.
func ignorant(t *rapid.T, e webhook.Entry, r match.Request, full match.Verdict) {
	less := r
	for i, forget := range []func(){
		func() { less.User = nil },
		func() { less.OldObject = nil },
		func() { less.Name, less.Object = nameOf(r), nil },
	} {
		if rapid.Bool().Draw(t, fmt.Sprint("forget ", i)) {
			forget()
		}
	}
	m := &match.Matcher{}
	v := m.Match(context.Background(), e, less)
	if v.Outcome != match.Maybe {
		require.Equal(t, full.Outcome, v.Outcome, "%s\nwith full knowledge: %+v\nwith less: %+v", e, full, v)
	}
}

func nameOf(r match.Request) string {
	if r.Name == "" && r.Object != nil {
		return r.Object.GetName()
	}
	return r.Name
}
