package sequence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// cluster answers creates as its rules say, and notes the order of what it admitted.
type cluster struct {
	t    *testing.T
	hold *hold.Transport

	mu       sync.Mutex
	admitted []string
	// judged are the kinds that the webhook judges.
	judged []string
	// refuse gives why an object is not admitted, when it comes, after how long.
	refuse func(kind string, admitted []string) (time.Duration, string)
}

func newCluster(t *testing.T, refuse func(kind string, admitted []string) (time.Duration, string)) *cluster {
	t.Helper()
	c := &cluster{t: t, refuse: refuse}
	c.hold = &hold.Transport{Base: c, Gate: hold.NewGate(nil), Timeout: time.Minute}
	return c
}

func (c *cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	var object metav1.PartialObjectMetadata
	require.NoError(c.t, json.Unmarshal(body, &object))
	c.mu.Lock()
	after, why := c.refuse(object.Kind, slices.Clone(c.admitted))
	c.mu.Unlock()
	select {
	case <-time.After(after + time.Millisecond):
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
	if why != "" {
		status := apierrors.NewInternalError(errors.New(why)).Status()
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		b, _ := json.Marshal(status)
		return &http.Response{StatusCode: 500, Body: io.NopCloser(bytes.NewReader(b))}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admitted = append(c.admitted, object.Name)
	return &http.Response{StatusCode: 201, Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// item is an object of a kind whose name begins with its kind's.
func (c *cluster) item(name string) *Item {
	kind := strings.TrimRight(name, "0123456789")
	gvk := schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: kind}
	if kind == "Configuration" || kind == "Service" {
		gvk.Group = "admissionregistration.k8s.io"
	}
	return &Item{
		Kind: gvk, Namespace: "demo", Name: name,
		Free: func(webhook.Fault) bool { return kind != "Namespace" },
		Judged: func(_ context.Context, f webhook.Fault) bool {
			return f.Webhook == "v.example.io" && slices.Contains(c.judged, kind)
		},
		Send: func(ctx context.Context) error {
			body := fmt.Sprintf(`{"kind":%q,"apiVersion":"example.io/v1","metadata":{"name":%q}}`, kind, name)
			path := "https://cluster/apis/example.io/v1/namespaces/demo/" + strings.ToLower(kind) + "s"
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
			require.NoError(c.t, err)
			resp, err := c.hold.RoundTrip(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != 201 {
				b, _ := io.ReadAll(resp.Body)
				return fmt.Errorf("%s: %s", name, b)
			}
			return nil
		},
	}
}

// items are one batch each.
func (c *cluster) items(names ...string) [][]*Item {
	var out [][]*Item
	for _, n := range names {
		out = append(out, []*Item{c.item(n)})
	}
	return out
}

const (
	late   = `failed calling webhook "v.example.io": failed to call webhook: Post "https://w.demo.svc:443/": dial tcp 10.0.0.1:443: connect: connection refused`
	denied = `admission webhook "v.example.io" denied the request: no`
)

// until refuses kinds with a text until an object was admitted.
func until(name, text string, kinds ...string) func(string, []string) (time.Duration, string) {
	return func(kind string, admitted []string) (time.Duration, string) {
		if slices.Contains(kinds, kind) && !slices.Contains(admitted, name) {
			return 0, text
		}
		return 0, ""
	}
}

func TestAHeldItemHoldsBackNothingButWhatItsWebhookJudges(t *testing.T) {
	for name, tc := range map[string]struct {
		send   []string
		judged []string
		refuse func(string, []string) (time.Duration, string)
		want   []string
	}{
		"nothing is held": {
			send: []string{"Namespace", "Alert", "Configuration"}, refuse: until("", ""),
			want: []string{"Namespace", "Alert", "Configuration"},
		},
		"its webhook's configuration comes later": {
			send: []string{"Alert", "Configuration"}, judged: []string{"Alert"},
			refuse: until("Configuration", late, "Alert"),
			want:   []string{"Configuration", "Alert"},
		},
		"a custom resource that its webhook needs comes later": {
			send: []string{"Alert", "Certificate"}, judged: []string{"Alert"},
			refuse: until("Certificate", late, "Alert"),
			want:   []string{"Certificate", "Alert"},
		},
		"another kind that the webhook judges keeps its place": {
			send: []string{"Alert1", "Alert2", "Rule", "Configuration"}, judged: []string{"Alert", "Rule"},
			refuse: until("Configuration", late, "Alert"), // the webhook would admit the rule
			want:   []string{"Configuration", "Alert1", "Alert2", "Rule"},
		},
		"its own kind keeps its place, whoever judges it": {
			send:   []string{"Alert1", "Alert2", "Configuration"},
			refuse: until("Configuration", late, "Alert"),
			want:   []string{"Configuration", "Alert1", "Alert2"},
		},
		"a slow webhook that answers keeps the order": {
			send: []string{"Alert", "Rule"},
			refuse: func(kind string, _ []string) (time.Duration, string) {
				if kind == "Alert" {
					return 8 * time.Second, ""
				}
				return 0, ""
			},
			want: []string{"Alert", "Rule"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, tc.refuse)
				c.judged = tc.judged
				s := New(t.Context())
				defer s.Close()

				for _, batch := range c.items(tc.send...) {
					s.Send(batch...)
				}
				require.NoError(t, s.Gather(nil))

				require.Equal(t, tc.want, c.admitted)
				require.Empty(t, s.Pending())
			})
		})
	}
}

// What others cannot be without is waited for, however long it is held.
func TestWhatOthersNeedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newCluster(t, func(kind string, _ []string) (time.Duration, string) {
			if kind == "Namespace" && time.Since(start) < 20*time.Second {
				return 0, late
			}
			return 0, ""
		})
		s := New(t.Context())
		defer s.Close()

		for _, batch := range c.items("Namespace", "Configuration") {
			s.Send(batch...)
		}

		require.Equal(t, []string{"Namespace", "Configuration"}, c.admitted)
	})
}

// One of a batch is held; another one's call hangs, and is not waited for long.
func TestACallThatHangsHoldsBackLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newCluster(t, func(kind string, admitted []string) (time.Duration, string) {
			switch {
			case kind == "Alert" && !slices.Contains(admitted, "Configuration"):
				return 0, late
			case kind == "Bell" && !slices.Contains(admitted, "Configuration"):
				return 10 * time.Second, strings.ReplaceAll(late, "v.example.io", "w.example.io")
			case kind == "Configuration":
				require.Less(t, time.Since(start), 2*time.Second)
			}
			return 0, ""
		})
		s := New(t.Context())
		defer s.Close()

		s.Send(c.item("Alert"), c.item("Bell"))
		s.Send(c.item("Configuration"))
		require.NoError(t, s.Gather(nil))

		require.Equal(t, []string{"Configuration", "Alert", "Bell"}, c.admitted)
	})
}

// What failed is told soon: what is held meanwhile is not waited for, and its
// end is no error of its own.
func TestAFailureEndsWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newCluster(t, func(kind string, _ []string) (time.Duration, string) {
			switch kind {
			case "Alert":
				return 0, late
			case "Rule":
				return 0, denied
			}
			return 0, ""
		})
		s := New(t.Context())
		defer s.Close()

		for _, batch := range c.items("Alert", "Rule", "Service") {
			s.Send(batch...)
		}
		err := s.Gather(nil)

		require.ErrorContains(t, err, "denied the request")
		require.NotContains(t, err.Error(), "stopped")
		require.Less(t, time.Since(start), 3*time.Second)
		require.Equal(t, []string{"Service"}, c.admitted, "the others are sent, as Helm does")
		require.False(t, s.Failed())
	})
}

// A hold that ends in vain is found in the error, also where the client kept
// only its text.
func TestAHoldInVainIsInTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, until("never", late, "Alert"))
		s := New(t.Context())
		defer s.Close()
		it := c.item("Alert")
		send := it.Send
		it.Send = func(ctx context.Context) error {
			if err := send(ctx); err != nil {
				return errors.New("text: " + err.Error())
			}
			return nil
		}

		s.Send(it)
		err := s.Gather(nil)

		var held *hold.Error
		require.ErrorAs(t, err, &held)
		require.Equal(t, time.Minute, held.Limit)
		require.True(t, strings.HasPrefix(err.Error(), "text: "))
	})
}

// What is left behind by one Gather is waited for by the next.
func TestGatherLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, until("Hook", late, "Alert"))
		s := New(t.Context())
		defer s.Close()

		s.Send(c.item("Alert"))
		require.NoError(t, s.Gather(func(it *Item, f webhook.Fault) bool {
			return it.Name == "Alert" && f.ServiceKey() == "demo/w"
		}))
		require.Len(t, s.Pending(), 1)
		require.Empty(t, c.admitted)

		s.Send(c.item("Hook"))
		require.NoError(t, s.Gather(nil))
		require.Equal(t, []string{"Hook", "Alert"}, c.admitted)
	})
}

// What was left behind and is refused later is told by the next Gather, although
// nothing is pending any more.
func TestWhatIsLeftAndRefusedLaterIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newCluster(t, func(string, []string) (time.Duration, string) {
			if time.Since(start) < 5*time.Second {
				return 0, late
			}
			return 0, denied
		})
		s := New(t.Context())
		defer s.Close()
		s.Send(c.item("Alert"))
		require.NoError(t, s.Gather(func(*Item, webhook.Fault) bool { return true }))

		time.Sleep(10 * time.Second)

		require.Empty(t, s.Pending())
		require.ErrorContains(t, s.Gather(nil), "denied the request")
	})
}

// What waits for its turn is sent as soon as that comes, also while an item before
// it is still held: that one's webhook may need it.
func TestWhatIsQueuedIsSentWhileOthersAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newCluster(t, func(kind string, admitted []string) (time.Duration, string) {
			switch {
			case kind == "Alert" && !slices.Contains(admitted, "Certificate2"):
				return 0, late
			case kind == "Certificate" && time.Since(start) < 3*time.Second: // of another webhook
				return 0, strings.NewReplacer("v.example.io", "w.example.io", "w.demo", "x.demo").Replace(late)
			}
			return 0, ""
		})
		s := New(t.Context())
		defer s.Close()

		for _, batch := range c.items("Alert", "Certificate1", "Certificate2") {
			s.Send(batch...)
		}
		require.NoError(t, s.Gather(nil))

		require.Equal(t, []string{"Certificate1", "Certificate2", "Alert"}, c.admitted)
	})
}

// Of a large batch a few items are on their way at once; what is held takes nobody's
// place.
func TestABatchIsSentAFewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, until("Configuration", late, "Alert"))
		s := New(t.Context())
		defer s.Close()
		var mu sync.Mutex
		var batch []*Item
		flying, most := 0, 0
		for i := range 5 * inFlight {
			it := c.item(fmt.Sprintf("Rule%d", i))
			send := it.Send
			it.Send = func(ctx context.Context) error {
				mu.Lock()
				flying++
				most = max(most, flying)
				mu.Unlock()
				defer func() { mu.Lock(); flying--; mu.Unlock() }()
				return send(ctx)
			}
			batch = append(batch, it)
		}

		s.Send(batch...)
		require.Equal(t, inFlight, most)

		batch = nil
		for i := range 3 * inFlight {
			batch = append(batch, c.item(fmt.Sprintf("Alert%d", i)))
		}
		s.Send(batch...)
		s.Send(c.item("Configuration"))
		require.NoError(t, s.Gather(nil))
		require.Len(t, c.admitted, 8*inFlight+1)
	})
}

// Work that is done beside a sequence ends when an item fails, and meanwhile what
// becomes free is sent.
func TestWhile(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse string // when the webhook answers; "": it admits
		want   string
	}{
		"what waits is sent":      {},
		"a failure ends the work": {denied, "denied the request"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := newCluster(t, func(string, []string) (time.Duration, string) {
					if time.Since(start) < 5*time.Second {
						return 0, late
					}
					return 0, tc.refuse
				})
				s := New(t.Context())
				defer s.Close()
				for _, batch := range c.items("Alert1", "Alert2") {
					s.Send(batch...)
				}

				err := s.While(t.Context(), func(ctx context.Context) error {
					for ctx.Err() == nil {
						c.mu.Lock()
						n := len(c.admitted)
						c.mu.Unlock()
						if n == 2 {
							return nil
						}
						time.Sleep(time.Second)
					}
					return context.Cause(ctx)
				})

				if tc.want != "" {
					require.ErrorContains(t, err, tc.want)
					return
				}
				require.NoError(t, err)
				require.Less(t, time.Since(start), 8*time.Second)
			})
		})
	}
}

// What is dropped is not sent any more, unless it is on its way.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, until("never", late, "Alert"))
		s := New(t.Context())
		defer s.Close()
		for _, batch := range c.items("Alert1", "Alert2") {
			s.Send(batch...)
		}

		s.Drop(func(it *Item) bool { return it.Kind.Kind == "Alert" })

		require.NoError(t, s.Gather(nil))
		require.Empty(t, c.admitted)
	})
}

// A webhook is asked about once for each object, however many wait for it.
func TestJudgedIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, until("Configuration", late, "Alert"))
		s := New(t.Context())
		defer s.Close()
		asked := 0
		s.Send(c.item("Alert"))
		for i := range 50 {
			it := c.item(fmt.Sprintf("Rule%d", i))
			it.Kind.Kind += fmt.Sprint(i) // each of a kind of its own
			it.Judged = func(context.Context, webhook.Fault) bool { asked++; return true }
			s.Send(it)
		}
		s.Send(c.item("Configuration"))
		require.NoError(t, s.Gather(nil))
		require.Equal(t, 50, asked)
		require.Equal(t, []string{"Configuration", "Alert"}, c.admitted[:2])
	})
}

// The end of the context ends all requests, with its cause.
func TestTheContextEndsASequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, until("never", late, "Alert", "Namespace"))
		ctx, cancel := context.WithCancelCause(t.Context())
		s := New(ctx)
		defer s.Close()
		time.AfterFunc(5*time.Second, func() { cancel(errors.New("interrupted")) })

		for _, batch := range c.items("Alert", "Namespace") {
			s.Send(batch...)
		}

		// What was not sent yet has no error of its own.
		for range 100 {
			s.Send(c.item("Alert"))
		}
		err := s.Gather(nil)
		require.ErrorContains(t, err, "interrupted")
		require.Less(t, strings.Count(err.Error(), "interrupted"), 4)
	})
}
