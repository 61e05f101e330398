package inquiry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/inquiry"
	"github.com/kplan-dev/kplan/fleet/inventory"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
)

// server answers as clusters of different kinds do, by the first part of the path.
func server(t *testing.T) string {
	t.Helper()
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch kind := strings.Split(r.URL.Path, "/")[1]; kind {
		case "good":
			fmt.Fprint(w, `{"gitVersion": "v1.34.1"}`)
		case "refuses":
			http.Error(w, `{"kind": "Status", "apiVersion": "v1", "code": 401, "reason": "Unauthorized"}`, http.StatusUnauthorized)
		case "forbids":
			http.Error(w, `{"kind": "Status", "apiVersion": "v1", "code": 403, "reason": "Forbidden"}`, http.StatusForbidden)
		case "hangs":
			select {
			case <-r.Context().Done():
			case <-done:
			}
		default:
			fmt.Fprint(w, "<html>a router</html>")
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(done) })
	return s.URL
}

func TestAsk(t *testing.T) {
	url := server(t)
	c := inquiry.Config{
		Within: 300 * time.Millisecond,
		Kubeconfig: func(_ context.Context, c fleet.Cluster) ([]byte, error) {
			kind, _, _ := strings.Cut(c.Name, "-")
			if kind == "lost" {
				return nil, &inventory.KubeconfigError{Source: "Secret " + c.Name + "-kubeconfig", Why: "it is not there"}
			}
			at := url + "/" + kind
			if kind == "gone" {
				at = "https://127.0.0.1:1"
			}
			return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: t0ken}}]}`, at), nil
		},
		Look: func(_ context.Context, c fleet.Cluster, within time.Duration, found func(finding.Finding)) error {
			require.Positive(t, within)
			switch c.Name {
			case "good-2", "good-3":
				found(finding.Finding{Rule: "cluster-rights", Severity: finding.Error, Step: "eso", Message: "may not patch secrets in namespace " + c.Name, Hint: "kplan rbac PLAN"})
				found(finding.Finding{Rule: "cluster-unchecked", Severity: finding.Note, Message: "not known"})
			case "good-4":
				return document.Diagnostics{{Pos: document.Pos{File: "p.yaml", Line: 1, Col: 2}, Message: "wrong", Hint: "mend it"}}
			}
			return nil
		},
	}
	var clusters []fleet.Cluster
	for _, name := range []string{"good-1", "good-2", "good-3", "good-4", "refuses-1", "forbids-1", "hangs-1", "router-1", "gone-1", "gone-2", "lost-1", "lost-2"} {
		clusters = append(clusters, fleet.Cluster{Name: name})
	}
	var heard atomic.Int32
	answers, err := c.Ask(t.Context(), clusters, func(done int) { heard.Store(int32(done)) })
	require.NoError(t, err)
	require.EqualValues(t, len(clusters), heard.Load())
	var got []string
	for _, a := range answers {
		text := fmt.Sprintf("%s %v %s", a.Cluster.Name, a.Good(), a.Version)
		if a.Err != nil {
			text += fmt.Sprintf("%s: %v", a.Class, a.Err)
		}
		got = append(got, text)
	}
	require.Equal(t, []string{
		"good-1 true v1.34.1",
		"good-2 false v1.34.1",
		"good-3 false v1.34.1",
		"good-4 false v1.34.1plan: p.yaml:1:2: wrong\n  hint: mend it",
		"refuses-1 false refused: it does not accept the credentials in its kubeconfig",
		"forbids-1 true ",
		"hangs-1 false unreachable: no answer within 300ms",
		"router-1 false unreachable: what answers is no API server of Kubernetes",
		"gone-1 false unreachable: it cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused",
		"gone-2 false unreachable: it cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused",
		"lost-1 false refused: Secret lost-1-kubeconfig: it is not there",
		"lost-2 false refused: Secret lost-2-kubeconfig: it is not there",
	}, got)

	got = nil
	for _, g := range inquiry.GroupsOf(answers, nil) {
		got = append(got, fmt.Sprintf("%s %s %s%s %v", g.Severity, g.Class, g.Step, g.Text, g.Clusters))
	}
	require.Equal(t, []string{
		"error refused Secret CLUSTER-kubeconfig: it is not there [lost-1 lost-2]",
		"error unreachable it cannot be reached: dial tcp ADDRESS: connect: connection refused [gone-1 gone-2]",
		"error forbidden esomay not patch secrets in namespace CLUSTER [good-2 good-3]",
		"error refused it does not accept the credentials in its kubeconfig [refuses-1]",
		"error unreachable no answer within TIME [hangs-1]",
		"error plan p.yaml:1:2: wrong [good-4]",
		"error unreachable what answers is no API server of Kubernetes [router-1]",
		"note step not known [good-2 good-3]",
	}, got)
}

// Who stops it gets that cause, and nobody is asked any more.
func TestAskStops(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	stop(why)
	c := inquiry.Config{Kubeconfig: func(context.Context, fleet.Cluster) ([]byte, error) { t.Error("asked"); return nil, why }}
	_, err := c.Ask(ctx, []fleet.Cluster{{Name: "a"}, {Name: "b"}}, nil)
	require.ErrorIs(t, err, why)
}
