package freeze

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/inventory"
	"github.com/kplan-dev/kplan/fleet/load"
)

// members are the clusters that a fleet takes.
type members struct {
	fleet      *load.Fleet
	clusters   []fleet.Cluster
	notes      []inventory.Note
	unselected int
	// entries are the inventory entries of clusters, by their names.
	entries map[string]int
	// again are texts about clusters that were found twice.
	again []string
}

// membersOf selects clusters, and puts each into its wave.
func membersOf(f *load.Fleet, found []inventory.Found) (*members, error) {
	m := &members{fleet: f, entries: map[string]int{}}
	var faults Groups
	for i, entry := range found {
		m.notes = append(m.notes, entry.Notes...)
		for _, r := range entry.Refused {
			takes, err := f.Takes(i, r.Cluster)
			faults.Add(fleet.BadPlan, r.Cluster, err)
			if takes {
				faults.Add(fleet.BadPlan, r.Cluster, r.Err)
			}
		}
		for _, c := range entry.Clusters {
			takes, err := f.Takes(i, c)
			faults.Add(fleet.BadPlan, c, err)
			switch {
			case err != nil:
			case takes:
				m.add(i, c)
			default:
				m.unselected++
			}
		}
	}
	err := errors.Join(faults.Err(), m.twice())
	if err == nil {
		err = m.any()
	}
	return m, errors.Join(err, m.waves())
}

// add takes in a cluster, unless its owner wants nobody to work on it.
func (m *members) add(entry int, c fleet.Cluster) {
	if first, known := m.entries[c.Name]; known {
		m.again = append(m.again, fmt.Sprintf("%s by %s and by %s", c.Name, m.place(first), m.place(entry)))
		return
	}
	m.entries[c.Name] = entry
	if c.Paused {
		m.notes = append(m.notes, inventory.Note{Cluster: c.Name, Source: c.Source, Why: "its owner has paused it"})
		return
	}
	m.clusters = append(m.clusters, c)
}

// place names an entry of the inventory.
func (m *members) place(entry int) string { return fmt.Sprintf("inventory[%d]", entry) }

// twice tells of clusters that were found twice.
func (m *members) twice() error {
	if len(m.again) == 0 {
		return nil
	}
	return m.fleet.Fault("let the select of one of the entries leave it out; clusters of a list may have other names",
		fmt.Sprintf("%s found twice: %s", are(len(m.again)), some(m.again)), "inventory")
}

// any refuses a fleet without clusters.
func (m *members) any() error {
	if len(m.clusters) > 0 {
		return nil
	}
	why := "the inventory finds none"
	if n := m.unselected + len(m.notes); n > 0 {
		why = fmt.Sprintf("of those that the inventory finds %d are left out by select, and %d for other reasons", m.unselected, len(m.notes))
		for _, n := range m.notes[:min(len(m.notes), 3)] {
			why += "; " + n.String()
		}
	}
	return m.fleet.Fault("look at namespace, selector and select of the inventory", "the fleet has no clusters: "+why, "inventory")
}

// are begins a sentence about so many clusters.
func are(n int) string {
	if n == 1 {
		return "1 cluster is"
	}
	return fmt.Sprintf("%d clusters are", n)
}

// waves puts each cluster into the wave that selects it. A last wave without select has
// those of no other.
func (m *members) waves() error {
	var (
		faults Groups
		none   []string
		both   = map[[2]int][]string{}
	)
	for i := range m.clusters {
		c := &m.clusters[i]
		var in []int
		for w := range m.fleet.Waves {
			selected, err := m.fleet.Selects(w, *c)
			faults.Add(fleet.BadPlan, *c, err)
			if selected || err != nil {
				in = append(in, w)
			}
		}
		last := len(m.fleet.Waves) - 1
		if len(in) == 0 && m.fleet.Waves[last].Select == "" {
			in = []int{last}
		}
		switch len(in) {
		case 0:
			none = append(none, c.Name)
		case 1:
			c.Wave = m.fleet.Waves[in[0]].Name
		default:
			pair := [2]int{in[0], in[1]}
			both[pair] = append(both[pair], c.Name)
		}
	}
	errs := []error{faults.Err()}
	if len(none) > 0 {
		slices.Sort(none)
		errs = append(errs, m.fleet.Fault("a last wave without select has what no other has; or let the select of the inventory leave them out",
			fmt.Sprintf("%s in no wave: %s", are(len(none)), some(none)), "waves"))
	}
	for _, pair := range slices.SortedFunc(keys(both), func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) }) {
		names := both[pair]
		slices.Sort(names)
		errs = append(errs, m.fleet.Fault("let the select of one of them leave them out", fmt.Sprintf("%s in two waves, %s and %s: %s",
			are(len(names)), m.fleet.Waves[pair[0]].Name, m.fleet.Waves[pair[1]].Name, some(names)), "waves", pair[1], "select"))
	}
	return errors.Join(errs...)
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// distinctPlaces refuses two clusters that are one: with the same Secret, or with the same
// address.
func (m *members) distinctPlaces() error {
	var again []string
	seen := map[string]string{}
	for _, c := range m.clusters {
		var places []string
		if s := c.Access.Secret; s != nil {
			places = append(places, fmt.Sprintf("Secret %s/%s key %s of %s", s.Namespace, s.Name, s.Key, s.Cluster))
		}
		if c.Server != "" {
			places = append(places, normal(c.Server))
		}
		for _, place := range places {
			if first, known := seen[place]; known {
				again = append(again, fmt.Sprintf("%s and %s (%s)", first, c.Name, shownPlace(c)))
				break
			}
			seen[place] = c.Name
		}
	}
	if len(again) == 0 {
		return nil
	}
	return m.fleet.Fault("leave one of the two out by select: the plan would run twice on it, at once",
		"one cluster is found under two names: "+some(again), "inventory")
}

// normal is an address in the form in which equal ones are equal.
func normal(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.Port() == "" && u.Scheme == "https" {
		u.Host += ":443"
	}
	u.User = nil
	return strings.TrimSuffix(u.String(), "/")
}

// shownPlace is where a cluster is, without what an address may hold of credentials.
func shownPlace(c fleet.Cluster) string {
	if c.Server != "" {
		return normal(c.Server)
	}
	if s := c.Access.Secret; s != nil {
		return "Secret " + s.Namespace + "/" + s.Name
	}
	return "the same place"
}
