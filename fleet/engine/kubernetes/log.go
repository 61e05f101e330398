package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/runner"
)

// followed is how many pods' logs are read at once at most, and longest how long a line of
// them may be.
const (
	followed = 64
	longest  = 1 << 20
)

// logs reads the events of the clusters' runs, which workers write to their logs. A nil one
// reads none.
type logs struct {
	run   *Run
	ctx   context.Context //nolint:containedctx // ends what reads
	out   chan line
	group sync.WaitGroup

	// What follows is the goroutine's that calls.
	known map[types.UID]bool
	room  chan struct{}
	seen  map[string]*member.Watch // by cluster
	last  map[string]fleet.Event
	news  map[string]bool // clusters of which not all was told
}

// line is an event of a cluster's run.
type line struct {
	cluster string
	pod     types.UID
	event   runner.Event
}

func newLogs(ctx context.Context, r *Run) *logs {
	return &logs{
		run: r, ctx: ctx, out: make(chan line, 256), known: map[types.UID]bool{}, room: make(chan struct{}, followed),
		seen: map[string]*member.Watch{}, last: map[string]fleet.Event{}, news: map[string]bool{},
	}
}

func (l *logs) events() <-chan line {
	if l == nil {
		return nil
	}
	return l.out
}

func (l *logs) wait() {
	if l != nil {
		l.group.Wait()
	}
}

// follow begins to read the log of a pod that began. When too many are read it is left for
// later.
func (l *logs) follow(p *corev1.Pod, cluster string) {
	if l == nil || l.known[p.UID] || startOf(p).IsZero() {
		return
	}
	select {
	case l.room <- struct{}{}:
	default:
		return
	}
	l.known[p.UID] = true
	l.group.Go(func() {
		defer func() { <-l.room }()
		l.read(p, cluster)
	})
}

// read sends the events of a pod's log until the run of the plan is over, or the context. A
// log that is cut off, as when the API server is restarted, is read again.
func (l *logs) read(p *corev1.Pod, cluster string) {
	seen := 0
	for tries := 0; tries < 5; tries++ {
		before := seen
		if l.stream(p, cluster, &seen) {
			return
		}
		if seen > before {
			tries = 0
		}
		select {
		case <-time.After(tick):
		case <-l.ctx.Done():
			return
		}
	}
}

// stream sends the events after one that was seen. It reports whether there are no more.
func (l *logs) stream(p *corev1.Pod, cluster string, seen *int) (over bool) {
	from, err := l.run.store.Client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: object.Container, Follow: true}).Stream(l.ctx)
	if err != nil {
		return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) // what became of the cluster is known without it
	}
	defer from.Close()
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		text, err := readLine(lines)
		var e runner.Event
		if json.Unmarshal(text, &e) == nil && e.Seq > *seen {
			select {
			case l.out <- line{cluster, p.UID, e}:
			case <-l.ctx.Done():
				return true
			}
			*seen = e.Seq
			over = e.Type == runner.TypeDone
		}
		if err != nil || over {
			return over
		}
	}
}

// readLine reads a line; of one that is too long nothing.
func readLine(r *bufio.Reader) ([]byte, error) {
	var all []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(all)+len(part) <= longest {
			all = append(all, part...)
		}
		if err != bufio.ErrBufferFull { //nolint:errorlint // it is never wrapped
			return all, err
		}
	}
}

// follow reads the logs of pods that are at work, and of those that ended as long as
// nothing was read of them.
func (l *loop) follow(v *view) {
	if l.logs == nil {
		return
	}
	for i, wave := range v.pods {
		j := v.jobs[i]
		for k, all := range wave {
			if j == nil || k >= len(j.clusters) || j.clusters[k] >= len(l.fold.places[i]) {
				continue
			}
			for _, p := range all {
				l.logs.follow(p, l.fold.places[i][j.clusters[k]])
			}
		}
	}
}

// inner tells an event of a cluster's run, and how far that is.
func (l *loop) inner(n line) {
	l.Inner(n.cluster, n.event)
	w := l.logs.seen[n.cluster]
	if w == nil || n.event.Type == runner.TypePlan {
		w = &member.Watch{}
		l.logs.seen[n.cluster] = w
	}
	w.Apply(n.event)
	if n.event.Type != runner.TypeLog {
		l.logs.news[n.cluster] = true
		l.howFar(n.cluster, n.event.Time)
	}
}

// progressEvery is how often a cluster tells how far it is. What it is held for is told at
// once.
const progressEvery = time.Second

// howFar tells how far a cluster is, unless it told that just before.
func (l *loop) howFar(name string, now time.Time) {
	c, w := l.x.Cluster(name), l.logs.seen[name]
	if c == nil || !c.State.Active() {
		return // it is not seen to have begun yet, or is over
	}
	progress, hold := w.Progress(), w.Hold()
	e := fleet.Event{Type: fleet.TypeCluster, Cluster: c.Name, Wave: c.Wave, State: w.State(), Progress: &progress, Hold: hold, Time: now}
	last := l.logs.last[name]
	urgent := e.State != c.State || hold != nil && (last.Hold == nil || hold.Webhook != last.Hold.Webhook || hold.Cause != last.Hold.Cause)
	if !urgent && now.Sub(last.Time) < progressEvery {
		return
	}
	l.logs.last[name] = e
	delete(l.logs.news, name)
	l.fold.tell(e)
}

// late tells how far clusters are that had told something just before.
func (l *loop) late(now time.Time) {
	if l.logs == nil {
		return
	}
	for name := range l.logs.news {
		l.howFar(name, now)
	}
}

// flush tells what is there of the logs.
func (l *loop) flush() {
	for {
		select {
		case n := <-l.logs.events():
			l.inner(n)
		default:
			return
		}
	}
}
