package podlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kplan-dev/kplan/internal/clean"
)

// How much is told of logs.
const (
	// mostPods is of how many pods, in one attempt, and mostLogs of how many
	// containers and their restarts in a pod.
	mostPods, mostLogs = 5, 8
	// mostLines is how many lines of one log, and lastLines how many of those that
	// were there before the attempt.
	mostLines, lastLines = 200, 20
	// mostChars is how much of a line, and mostBytes how much of a log is read.
	mostChars, mostBytes = 500, 1 << 20
	// batch is how many lines are told at once.
	batch = 50
	// mostLast is how many lines of its last log an error has.
	mostLast = 5
)

// stream is the log of one run of a container.
type stream struct {
	target    *target
	of        string // what is waited for, see target.called
	pod       *corev1.Pod
	container string
	id        string // of this run of the container
	previous  bool   // another run has begun since
	follow    bool
	fresh     bool // it began with the attempt
	ends      bool // it ends soon, by itself
}

func (s stream) key() string {
	return s.pod.Namespace + "/" + s.pod.Name + "/" + s.container + "/" + s.id
}

// about names the container for events.
func (s stream) about() string {
	return "Pod/" + s.pod.Namespace + "/" + s.pod.Name + " container " + s.container
}

// read reads those logs of a pod that c wants to know and that were not read yet,
// and ends those that nobody wants any more. The caller holds mu.
func (t *Reporter) read(c *target, p *corev1.Pod) {
	name := p.Namespace + "/" + p.Name
	if end := t.follows[name]; end != nil && ready(p) && c.kind != job && c.kind != pod {
		end() // what it says now is its daily work
		delete(t.follows, name)
	}
	containers := map[string][]stream{}
	for _, s := range t.logsOf(c, p) {
		switch n, known := t.pods[name]; {
		case t.streams[s.key()] || t.refuses("logs", p.Namespace):
			continue
		case !known && len(t.pods) >= mostPods, n >= mostLogs:
			if !t.said["enough"] {
				t.said["enough"] = true
				t.begin(func() { t.log("", "", "logs of more containers are not shown") })
			}
			continue
		}
		t.streams[s.key()] = true
		t.pods[name]++
		if s.ends {
			t.open++
		}
		containers[s.container] = append(containers[s.container], s)
	}
	if len(containers) == 0 {
		return
	}
	ctx, end := context.WithCancelCause(t.ctx)
	before := t.follows[name]
	t.follows[name] = func() {
		if before != nil {
			before()
		}
		end(errReady)
	}
	for _, runs := range containers { // of a container, one run after another
		t.begin(func() {
			for _, s := range runs {
				t.tell(ctx, s)
				if s.ends {
					t.settle()
				}
			}
		})
	}
}

var errReady = errors.New("the pod is ready")

// logsOf are the logs of a pod that c wants to know: all of a Job's, else those of
// containers that keep the pod from being ready, and what one said last before it
// was started anew.
func (t *Reporter) logsOf(c *target, p *corev1.Pod) []stream {
	var all []stream
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		run := stream{target: c, of: c.called(), pod: p, container: s.Name, ends: ofJob(p)}
		if last := s.LastTerminationState.Terminated; last != nil && (!ready(p) || last.FinishedAt.After(t.began)) {
			run := run
			run.id, run.previous, run.ends = last.ContainerID, true, true
			run.fresh = t.since(last.StartedAt.Time)
			all = append(all, run)
		}
		if c.kind != job && c.kind != pod && (ready(p) || s.Ready) {
			continue
		}
		switch now := s.State; {
		case now.Running != nil:
			run.id, run.follow, run.fresh = s.ContainerID, true, t.since(now.Running.StartedAt.Time)
			all = append(all, run)
		case now.Terminated != nil && (now.Terminated.ExitCode != 0 || c.kind == job || c.kind == pod):
			run.id, run.ends, run.fresh = now.Terminated.ContainerID, true, t.since(now.Terminated.StartedAt.Time)
			all = append(all, run)
		}
	}
	return slices.DeleteFunc(all, func(s stream) bool { return s.id == "" })
}

// since reports whether something began with the attempt. The cluster's clock tells
// seconds, and may be a little off.
func (t *Reporter) since(at time.Time) bool { return at.After(t.began.Add(-3 * time.Second)) }

// tell reads a log and tells its lines. What has ended is read to its end.
func (t *Reporter) tell(ctx context.Context, s stream) {
	if !s.follow {
		ctx = t.ctx
	}
	o := &corev1.PodLogOptions{
		Container: s.container, Follow: s.follow, Previous: s.previous,
		TailLines: new(int64(lastLines)), LimitBytes: new(int64(mostBytes)),
	}
	if s.fresh {
		o.TailLines = new(int64(mostLines))
	}
	body, err := t.client.CoreV1().Pods(s.pod.Namespace).GetLogs(s.pod.Name, o).Stream(ctx)
	switch {
	case apierrors.IsForbidden(err):
		t.forbidden("logs", s.pod.Namespace, err)
		return
	case err != nil: // the container is gone, or not there yet: then there is another look
		if apierrors.IsBadRequest(err) {
			t.mu.Lock()
			delete(t.streams, s.key())
			t.mu.Unlock()
		}
		return
	}
	defer body.Close()
	t.lines(s, body)
}

// lines tells the lines of a log, as they come.
func (t *Reporter) lines(s stream, body io.Reader) {
	var lines []string
	flush := func() {
		if len(lines) > 0 {
			t.log(s.of, s.about(), strings.Join(lines, "\n"))
			t.keep(s, lines)
		}
		lines = nil
	}
	defer flush()
	in := bufio.NewReaderSize(body, 64<<10)
	for n := 0; ; {
		text, err := next(in)
		if text != "" || err == nil {
			lines = append(lines, line(text))
			n++
		}
		if n == mostLines && err == nil {
			flush()
			t.log(s.of, s.about(), fmt.Sprintf("(more is not shown, see: kubectl logs -n %s %s -c %s)", s.pod.Namespace, s.pod.Name, s.container))
			return
		}
		if buffered, _ := in.Peek(in.Buffered()); len(lines) >= batch || bytes.IndexByte(buffered, '\n') < 0 {
			flush()
		}
		if err != nil {
			return
		}
	}
}

// keep keeps the last lines of a log for the error; of several logs those of the one that
// spoke last.
func (t *Reporter) keep(s stream, lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.target.spoke != s.about() {
		s.target.spoke, s.target.lines = s.about(), nil
	}
	lines = slices.Concat(s.target.lines, slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l == "" }))
	s.target.lines = lines[max(0, len(lines)-mostLast):]
}

// next reads a line, as much of it as there is room for.
func next(in *bufio.Reader) (string, error) {
	part, err := in.ReadSlice('\n')
	text := strings.TrimRight(string(part), "\r\n")
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return text, err
}

// line is text as one line that has nothing in it that a terminal obeys.
func line(text string) string {
	text = strings.TrimRight(clean.Text(text), " \n")
	return cut(strings.ReplaceAll(text, "\n", " "), mostChars)
}

// cut shortens a text to so many characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + " …"
	}
	return text
}
