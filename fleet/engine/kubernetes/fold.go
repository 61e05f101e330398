package kubernetes

import (
	"slices"
	"time"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/fleet/engine/local"
)

// view is what the cluster says of a run at one moment.
type view struct {
	now    time.Time
	orders object.Orders
	saved  object.Saved
	jobs   map[int]*job            // by wave
	pods   map[int]map[int]workers // by wave and index of its Job
}

// fold makes events of what is seen.
type fold struct {
	*object.Spec
	x    *fleet.Execution
	tell func(fleet.Event) // applies it to x
	// places are the names of the waves' clusters, in their order.
	places [][]string
	first  bool // nothing was told yet
	seq    int
	last   time.Time // of the last event
}

func newFold(s *object.Spec, x *fleet.Execution, observe func(fleet.Event)) *fold {
	f := &fold{Spec: s, x: x, first: true}
	for _, w := range s.Rollout.Waves {
		var names []string
		for _, c := range s.Rollout.Wave(w.Name) {
			names = append(names, c.Name)
		}
		f.places = append(f.places, names)
	}
	f.tell = func(e fleet.Event) {
		f.seq++
		e.Seq = f.seq
		if e.Time.Before(f.last) {
			e.Time = f.last
		}
		f.last = e.Time
		x.Apply(e)
		if observe != nil {
			observe(e)
		}
	}
	return f
}

// see tells what is new. It decides nothing.
func (f *fold) see(v *view) {
	if f.first {
		f.begin(v)
	}
	if !f.x.Control.Equal(v.orders.Control) {
		f.tell(fleet.Event{Type: fleet.TypeControl, Time: v.now, Control: &v.orders.Control, By: v.orders.By})
	}
	for i := range f.Rollout.Waves {
		f.wave(v, i)
	}
	if v.orders.Stop != nil && f.x.Stop == nil {
		f.endWaves(v.orders.Stop)
		f.tell(fleet.Event{Type: fleet.TypeStop, Time: v.now, Reason: v.orders.Stop, Wave: v.orders.Stop.Wave})
	} else if v.orders.Aborted && f.x.Stop == nil {
		f.endWaves(&fleet.Stop{})
	}
	f.first = false
}

// begin tells the first event, and what earlier rounds did.
func (f *fold) begin(v *view) {
	began := f.Began
	if n := v.orders.Round; n <= len(v.saved.Began) {
		began = v.saved.Began[n-1]
	}
	first := local.First(f.Rollout, string(f.Run), f.By, f.Program)
	first.Time, first.Round, first.Engine = began, v.orders.Round, "kubernetes"
	f.tell(first)
	for _, c := range f.x.Clusters {
		if o, ok := v.saved.Clusters[c.Name]; ok && o.Round < v.orders.Round && o.State.Good() {
			f.tell(fleet.Event{Type: fleet.TypeCluster, Time: began, Cluster: c.Name, Wave: c.Wave, State: o.State, Attempt: o.Attempt, Result: o.Result})
		}
	}
	for _, w := range f.x.Waves {
		if !slices.ContainsFunc(w.Members, func(c *fleet.ClusterStatus) bool { return !c.State.Good() }) {
			f.tell(fleet.Event{Type: fleet.TypeWave, Time: began, Wave: w.Name, WaveState: fleet.WaveSucceeded})
		}
	}
}

// wave tells what is new of a wave and its clusters.
func (f *fold) wave(v *view, i int) {
	w, j := f.x.Waves[i], v.jobs[i]
	if f.begun(v, i) && (w.State == fleet.WavePending || w.State == fleet.WaveApproval) {
		at := v.now
		if j != nil && j.Status.StartTime != nil {
			at = j.Status.StartTime.Time
		} else if f.first {
			at = f.last
		}
		f.tell(fleet.Event{Type: fleet.TypeWave, Time: at, Wave: w.Name, WaveState: fleet.WaveRunning})
	}
	var news []fleet.Event
	for place, name := range f.places[i] {
		news = append(news, f.cluster(v, i, place, f.x.Cluster(name))...)
	}
	slices.SortStableFunc(news, func(a, b fleet.Event) int { return a.Time.Compare(b.Time) })
	for _, e := range news {
		f.tell(e)
	}
	if w.State == fleet.WaveRunning && i+1 < len(f.x.Waves) && f.begun(v, i+1) && over(w) {
		f.tell(fleet.Event{Type: fleet.TypeWave, Time: f.last, Wave: w.Name, WaveState: fleet.WaveSucceeded})
	}
}

// begun reports whether a wave was begun in this round.
func (f *fold) begun(v *view, i int) bool {
	j := v.jobs[i]
	if j != nil && (j.begun() || len(v.pods[i]) > 0) {
		return true
	}
	return slices.ContainsFunc(f.places[i], func(name string) bool {
		o := v.saved.Clusters[name]
		return o.Round == v.orders.Round && o.State != fleet.NotStarted
	})
}

// over reports whether all clusters of a wave are over, and each had its turn.
func over(w *fleet.WaveStatus) bool {
	return !slices.ContainsFunc(w.Members, func(c *fleet.ClusterStatus) bool { return !c.State.Good() && c.State != fleet.Failed })
}

// endWaves ends waves that were over when the run was stopped, and not why it was.
func (f *fold) endWaves(by *fleet.Stop) {
	for _, w := range f.x.Waves {
		if w.State == fleet.WaveRunning && over(w) && by.Wave != w.Name {
			f.tell(fleet.Event{Type: fleet.TypeWave, Time: f.last, Wave: w.Name, WaveState: fleet.WaveSucceeded})
		}
	}
}

// cluster is what is new of one cluster.
func (f *fold) cluster(v *view, i, place int, c *fleet.ClusterStatus) []fleet.Event {
	var s status
	saved, kept := v.saved.Clusters[c.Name]
	kept = kept && saved.Round == v.orders.Round
	if j := v.jobs[i]; j != nil {
		if k, mine := slices.BinarySearch(j.clusters, place); mine {
			s = look(j, k, v.pods[i][k], c.State.Active())
		}
	}
	switch {
	case kept && s.result == nil && !s.state.Active(): // its pod is gone
		s = status{state: saved.State, attempt: saved.Attempt, started: saved.Started, at: saved.At, result: saved.Result}
	case s.state == fleet.Failed && s.result == nil:
		s.result = lost(s.last)
	}
	switch {
	case s.state == "" || s.state == fleet.Pending:
		return nil
	case s.state == c.State || s.state == fleet.Running && c.State == fleet.Holding:
		if s.attempt == 0 || s.attempt == c.Attempt || s.state.Over() {
			return nil
		}
	case c.State.Over() && (c.State != fleet.NotStarted || s.state.Over()):
		return nil // nothing more happens; only who was thought not to start may have started
	}
	at := s.at
	if at.IsZero() {
		at = v.now
	}
	e := fleet.Event{Type: fleet.TypeCluster, Time: at, Cluster: c.Name, Wave: c.Wave, State: s.state, Attempt: s.attempt, Result: s.result}
	if s.state.Over() && c.State == fleet.Pending && !s.started.IsZero() {
		begin := fleet.Event{Type: fleet.TypeCluster, Time: s.started, Cluster: c.Name, Wave: c.Wave, State: fleet.Running, Attempt: s.attempt}
		return []fleet.Event{begin, e}
	}
	return []fleet.Event{e}
}

// decide tells what follows of what was seen, and returns what is to be done.
func (f *fold) decide(v *view) fleet.Decision {
	for {
		d := f.x.Decide(v.now)
		if len(d.Events) == 0 {
			return d
		}
		for _, e := range d.Events {
			e.Time = v.now
			if e.Type == fleet.TypeWave {
				f.date(&e)
			}
			f.tell(e)
		}
	}
}

// date gives a wave's soak the time that began with its end, whenever that is seen.
func (f *fold) date(e *fleet.Event) {
	w := f.x.Wave(e.Wave)
	if e.WaveState != fleet.WaveSoaking && (e.WaveState != fleet.WaveSucceeded || w.State == fleet.WaveSoaking) {
		return
	}
	var end time.Time
	for _, c := range w.Members {
		if c.Since.After(end) {
			end = c.Since
		}
	}
	e.Time = end
	if e.WaveState == fleet.WaveSoaking {
		e.Until = end.Add(time.Duration(w.SoakSeconds * float64(time.Second)))
	}
}

// settled reports whether nothing works for a stopped run any more: no Job can start a pod,
// and none is left.
func settled(v *view) bool {
	for _, j := range v.jobs {
		if !suspended(j.Job) && !ended(j.Job) {
			return false
		}
	}
	return !working(v, func(workers) bool { return true })
}

// working reports whether a pod is there that has not ended, of those that are asked for.
func working(v *view, want func(workers) bool) bool {
	for _, wave := range v.pods {
		for _, all := range wave {
			for _, p := range all {
				if !gone(p) && want(workers{p}) {
					return true
				}
			}
		}
	}
	return false
}
