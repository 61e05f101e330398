package diff

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/steps/internal/drift"
	"github.com/kplan-dev/kplan/steps/internal/dryrun"
)

// digest is by what a step is known to be what was reviewed.
type digest struct {
	sent map[string]string // what is sent, by object
	live map[string]string // what it was compared with; empty for what did not exist
}

// digestOf takes the digests of what is sent, and of what it was compared with.
func digestOf(all []*dryrun.Object, sent []*unstructured.Unstructured) digest {
	d := digest{map[string]string{}, map[string]string{}}
	for _, u := range sent {
		if u != nil {
			d.sent[dryrun.Of(u).ID()] = hash(u.Object)
		}
	}
	var controllers drift.Controllers
	for _, o := range all {
		if o.Before != nil {
			controllers.Saw(o.Before)
		}
	}
	for _, o := range all {
		d.live[o.ID()] = ""
		if o.Before != nil {
			d.live[o.ID()] = hash(controllers.Without(bare(o.Before), o.Before))
		}
	}
	return d
}

// hash is of what JSON makes of a value: its maps are sorted. It is kept nowhere as it
// is: what was hashed could be found by trying.
func hash(v any) string {
	b, _ := json.Marshal(v) // it came as JSON
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Review is a diff that was looked at, as it is kept: digests only.
type Review struct {
	Steps map[string]ReviewedStep `json:"steps"`
}

// ReviewedStep is one step of it.
type ReviewedStep struct {
	State State             `json:"state"`
	Sent  map[string]string `json:"sent,omitempty"`
	Live  map[string]string `json:"live,omitempty"`
}

// Signer makes a digest of a value with a key, without which nobody can tell of what it
// was made.
type Signer interface{ Digest(any) string }

// Review is the diff as it is kept.
func (d *Diff) Review(by Signer) Review {
	r := Review{Steps: map[string]ReviewedStep{}}
	for _, s := range d.Steps {
		r.Steps[s.Name] = ReviewedStep{s.State, signed(by, s.digest.sent), signed(by, s.digest.live)}
	}
	return r
}

// signed are digests with a key; that of what did not exist stays empty.
func signed(by Signer, hashes map[string]string) map[string]string {
	out := make(map[string]string, len(hashes))
	for name, hash := range hashes {
		if out[name] = hash; hash != "" {
			out[name] = by.Digest([]string{name, hash})
		}
	}
	return out
}

// Moved says in what a diff is not the one that was reviewed, whose digests were made
// with the same key.
func (r Review) Moved(now *Diff, by Signer) []string {
	var moved []string
	is := now.Review(by)
	for _, s := range now.Steps {
		was, known := r.Steps[s.Name]
		if !known {
			moved = append(moved, "step "+s.Name+" is new")
			continue
		}
		before := len(moved)
		moved = append(moved, compareDigests(s.Name, was.Sent, is.Steps[s.Name].Sent, "would be sent otherwise", "would be sent too", "would not be sent any more")...)
		moved = append(moved, compareDigests(s.Name, was.Live, is.Steps[s.Name].Live, "has changed in the cluster", "has changed in the cluster", "has changed in the cluster")...)
		if len(moved) == before && was.State != s.State {
			moved = append(moved, "step "+s.Name+": "+string(was.State)+" when it was reviewed, "+string(s.State)+" now")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Steps)) {
		if _, there := is.Steps[name]; !there {
			moved = append(moved, "step "+name+" is gone")
		}
	}
	return moved
}

func compareDigests(step string, was, is map[string]string, other, more, less string) []string {
	var out []string
	all := maps.Clone(was)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a, inA := was[name]
		b, inB := is[name]
		say := ""
		switch {
		case !inA:
			say = more
		case !inB:
			say = less
		case a != b:
			say = other
		}
		if say != "" {
			out = append(out, "step "+step+": "+name+" "+say)
		}
	}
	return out
}
