package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
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
		seen: map[string]*member.Watch{}, last: map[string]fleet.Event{},
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

// read sends the events of a pod's log until the pod ends, or the context.
func (l *logs) read(p *corev1.Pod, cluster string) {
	from, err := l.run.store.Client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: object.Container, Follow: true}).Stream(l.ctx)
	if err != nil {
		return // what became of the cluster is known without it
	}
	defer from.Close()
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		text, err := readLine(lines)
		var e runner.Event
		if json.Unmarshal(text, &e) == nil && e.Seq > 0 {
			select {
			case l.out <- line{cluster, p.UID, e}:
			case <-l.ctx.Done():
				return
			}
		}
		if err != nil {
			return
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
	c := l.x.Cluster(n.cluster)
	if c == nil || !c.State.Active() || n.event.Type == runner.TypeLog {
		return
	}
	progress := w.Progress()
	e := fleet.Event{Type: fleet.TypeCluster, Cluster: c.Name, Wave: c.Wave, State: w.State(), Progress: &progress, Hold: w.Hold()}
	if last := l.logs.last[c.Name]; e.State == c.State && reflect.DeepEqual(last, e) {
		return
	}
	l.logs.last[c.Name] = e
	e.Time = n.event.Time
	l.fold.tell(e)
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
