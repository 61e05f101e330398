package report

import (
	"cmp"
	"io"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

// junitFleetLog is how much of logs the suite of a cluster that failed has; others have none.
const junitFleetLog = 64 << 10

// writeFleetJUnit writes each cluster as a test suite, and each step there as a test case. A
// cluster whose steps are not known, or that failed before any of them, has a case of its own.
func writeFleetJUnit(w io.Writer, f *Fleet) error {
	var all junitSuites
	for i, c := range f.Clusters {
		suite, err := f.suite(c)
		if err != nil {
			return err
		}
		suite.ID = i
		all.Suites = append(all.Suites, suite)
	}
	return all.write(w)
}

// suite is the test suite of a cluster.
func (f *Fleet) suite(c *fleet.ClusterStatus) (junitSuite, error) {
	t, err := f.timeline(c.Name)
	if err != nil {
		return junitSuite{}, err
	}
	began := cmp.Or(c.Started, f.Started)
	if c.Result != nil {
		began = cmp.Or(c.Result.Started, began)
	}
	suite := junitSuite{Hostname: "localhost", Timestamp: began.UTC().Format("2006-01-02T15:04:05"), Time: decimal(fleetview.Took(c, f.Last))}
	if t != nil {
		logs := 0
		if c.State == fleet.Failed {
			logs = junitFleetLog
		}
		suite = junitSuiteOf(newRun(t, Meta{}), logs)
	}
	name := token(c.Name, "cluster")
	suite.Name, suite.Package = name, token(f.First.Fleet, "fleet")
	for i, k := range suite.Cases {
		_, kind, _ := strings.Cut(k.Class, ".")
		suite.Cases[i].Class = name + "." + kind
	}
	suite.Properties = append(suite.Properties,
		junitProperty{"kplan.fleet", token(f.First.Fleet, "fleet")}, junitProperty{"kplan.wave", token(c.Wave, "wave")}, junitProperty{"kplan.cluster_state", string(c.State)})
	f.addCluster(&suite, c)
	return suite, nil
}

// addCluster adds a case for what no step tells of a cluster.
func (f *Fleet) addCluster(suite *junitSuite, c *fleet.ClusterStatus) {
	k := junitCase{Name: "cluster", Class: suite.Name + ".cluster", Time: "0.000"}
	switch {
	case c.State == fleet.Failed && suite.Failures == 0:
		text, hint := fleetview.ErrorText(c), ""
		if c.Result != nil {
			hint = words.Prefixed("\nhint: ", clean(c.Result.Hint))
		}
		k.Failure = &junitFailure{Message: xmlText(cmp.Or(line(text), "failed")), Type: "failed", Text: xmlText(cmp.Or(clean(text), "failed") + hint)}
		suite.Failures++
	case len(suite.Cases) > 0 || c.State == fleet.Failed:
		return
	case !c.State.Good():
		why := said(c.State)
		k.Skipped = &why
		suite.Skipped++
	}
	suite.Cases = append(suite.Cases, k)
	suite.Tests++
}
