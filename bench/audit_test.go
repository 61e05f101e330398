package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// request is what the API server's audit log says of one (k8s.io/apiserver
// pkg/apis/audit/v1 Event, level Metadata).
type request struct {
	AuditID   string    `json:"auditID"`
	Stage     string    `json:"stage"`
	Verb      string    `json:"verb"`
	URI       string    `json:"requestURI"`
	Agent     string    `json:"userAgent"`
	ObjectRef object    `json:"objectRef"`
	Status    status    `json:"responseStatus"`
	Received  time.Time `json:"requestReceivedTimestamp"`
	// Answered is when the last byte of the answer was written.
	Answered time.Time `json:"stageTimestamp"`
}

type object struct {
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// refused says that the API server could not call a webhook. Admission ends at
// the first that cannot be called, so each such request was one call in vain.
func (r request) refused() bool { return strings.Contains(r.Status.Message, "failed calling webhook") }

// guarded says that the request was to write one of the guarded objects.
func (r request) guarded(namespace string) bool {
	return (r.ObjectRef.Resource == "widgets" || r.ObjectRef.Resource == "alerts") && r.ObjectRef.Subresource == "" && r.ObjectRef.Namespace == namespace &&
		slices.Contains([]string{"create", "update", "patch"}, r.Verb) && !strings.Contains(r.URI, "dryRun")
}

// auditLog reads requests from an offset of the log on: each once, in the order
// of their answers, those that never ended (a watch at a restart) included.
func auditLog(file string, from int64) ([]request, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	var all []request
	seen := map[string]int{}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // what has no end yet is being written
		}
		if err != nil {
			return nil, err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if i, again := seen[r.AuditID]; again {
			all[i] = r
			continue
		}
		seen[r.AuditID] = len(all)
		all = append(all, r)
	}
}

// traffic is what the API server saw of one tool's install.
type traffic struct {
	// requests are all of the tool's.
	requests int
	// vain are the calls of a webhook that did not answer.
	vain int
	// held are the moments at which the guarded objects were admitted that were
	// not before the webhook made dry-runs fail; sorted.
	held []time.Time
	// waited are those of held that had been sent before the floor; the others
	// were not sent sooner, because Helm upgrades one object after the other.
	waited []time.Time
	// flight is how many requests for guarded objects were at most under way at
	// once before the first of the held ones was admitted; again is the same
	// without the first request for each object.
	flight, again int
}

// trafficOf reads what a tool with one of the user agents (prefixes) did.
func trafficOf(all []request, agents []string, namespace string, f floor) traffic {
	var t traffic
	var calls []request
	for _, r := range all {
		if !slices.ContainsFunc(agents, func(a string) bool { return strings.HasPrefix(r.Agent, a) }) {
			continue
		}
		t.requests++
		if r.refused() {
			t.vain++
		}
		if r.guarded(namespace) {
			calls = append(calls, r)
		}
	}
	if f.closed.IsZero() {
		return t
	}
	slices.SortFunc(calls, func(a, b request) int { return a.Received.Compare(b.Received) })
	sent, admitted := map[string]time.Time{}, map[string]bool{}
	for _, r := range calls {
		name := r.ObjectRef.Name
		if sent[name].IsZero() {
			sent[name] = r.Received
		}
		if r.Status.Code >= 300 || admitted[name] {
			continue
		}
		admitted[name] = true
		if r.Answered.After(f.closed) {
			t.held = append(t.held, r.Answered)
			if sent[name].Before(f.at) {
				t.waited = append(t.waited, r.Answered)
			}
		}
	}
	if len(t.held) == 0 {
		return t
	}
	slices.SortFunc(t.held, time.Time.Compare)
	slices.SortFunc(t.waited, time.Time.Compare)
	calls = slices.DeleteFunc(calls, func(r request) bool {
		return !r.refused() && r.Answered.Before(f.closed) // there was no webhook yet
	})
	t.flight = crowd(calls, t.held[0])
	met := map[string]bool{}
	t.again = crowd(slices.DeleteFunc(calls, func(r request) bool {
		first := !met[r.ObjectRef.Name]
		met[r.ObjectRef.Name] = true
		return first
	}), t.held[0])
	return t
}

// crowd is how many of the requests were at most under way at once before an end.
func crowd(requests []request, end time.Time) int {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, r := range requests {
		if r.Received.Before(end) {
			changes = append(changes, change{r.Received, 1}, change{r.Answered, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by // one that ends makes room for one that begins
	})
	most, now := 0, 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}

func TestAuditLog(t *testing.T) {
	file := t.TempDir() + "/audit.jsonl"
	text := `{"auditID":"0","stage":"ResponseComplete"}
{"auditID":"1","stage":"ResponseStarted","verb":"watch"}
{"auditID":"2","stage":"ResponseComplete","verb":"create","requestURI":"/apis/lab.kplan.dev/v1/namespaces/n/widgets","userAgent":"Helm/3",` +
		`"objectRef":{"resource":"widgets","namespace":"n","name":"w"},"responseStatus":{"code":500,"message":"failed calling webhook \"v\""},` +
		`"requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","stageTimestamp":"2026-01-01T00:00:00.000002Z"}
{"auditID":"1","stage":"ResponseComplete","verb":"watch"}
{"auditID":"3","stage":`
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))

	all, err := auditLog(file, int64(strings.Index(text, "\n")+1))

	require.NoError(t, err)
	require.Len(t, all, 2, "each request once, and only whole lines")
	require.Equal(t, "ResponseComplete", all[0].Stage)
	require.True(t, all[1].refused())
	require.True(t, all[1].guarded("n"))
	require.False(t, all[1].guarded("m"))
	require.Equal(t, 1000, all[1].Received.Nanosecond())
}

func TestTraffic(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	send := func(name string, from, to, code int) request {
		r := request{
			Verb: "create", Agent: "tool/1", ObjectRef: object{Resource: "widgets", Namespace: "n", Name: name},
			Status: status{Code: code}, Received: at(from), Answered: at(to),
		}
		if code == 500 {
			r.Status.Message = `failed calling webhook "v"`
		}
		return r
	}
	got := trafficOf([]request{
		send("early", 0, 5, 201), // before the webhook's configuration
		send("a", 10, 14, 500),
		send("b", 11, 15, 500),
		send("c", 12, 16, 500),
		send("a", 20, 24, 500),
		send("a", 30, 36, 201),
		send("b", 34, 38, 201),
		send("c", 38, 42, 201),
		send("late", 43, 45, 201), // sent after the floor: it did not wait
		{Agent: "other/1", Status: status{Message: "failed calling webhook"}},
	}, []string{"tool/"}, "n", floor{closed: at(13), at: at(35)})
	require.Equal(t, traffic{
		requests: 9, vain: 4,
		held: []time.Time{at(36), at(38), at(42), at(45)}, waited: []time.Time{at(36), at(38), at(42)},
		flight: 3, again: 2,
	}, got)
}
