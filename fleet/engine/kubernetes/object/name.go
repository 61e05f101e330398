// Package object makes the objects that a fleet's run has in its management cluster, and
// reads them: ConfigMaps with the rollout, the plan's files, the orders and the results, an
// Indexed Job for each wave, the driver's Job, and the roles that their pods need.
//
// It asks no cluster: all of it is values.
package object

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Labels of all objects of a run. Run, Wave and Round are also those of its pods.
const (
	LabelManager = "app.kubernetes.io/managed-by"
	LabelFleet   = "kplan.dev/fleet"
	LabelRun     = "kplan.dev/fleet-run"
	// LabelPart is one of the parts.
	LabelPart = "kplan.dev/fleet-part"
	// LabelWave is the number of a wave in the rollout's order, from 0, LabelRound counts
	// from 1 how often the run was begun or resumed.
	LabelWave  = "kplan.dev/fleet-wave"
	LabelRound = "kplan.dev/fleet-round"
)

// Manager is the value of LabelManager, and the field manager of all writes.
const Manager = "kplan"

// The parts of a run.
const (
	PartRollout = "rollout"
	PartBundle  = "bundle"
	PartControl = "control"
	PartResults = "results"
	PartWave    = "wave"
	PartDriver  = "driver"
)

// Run names the objects of one run.
type Run string

var isRun = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-f]+$`)

// Check returns an error for what is no ID of a run.
func (r Run) Check() error {
	if !isRun.MatchString(string(r)) || len(r) > 40 {
		return fmt.Errorf("%q is no ID of a run, such as 20261122-161030-3a12cd", string(r))
	}
	return nil
}

// Rollout is the ConfigMap of the rollout without its clusters. It owns all others.
func (r Run) Rollout() string { return string(r) + "-rollout" }

// Clusters is the ConfigMap with the clusters of a wave.
func (r Run) Clusters(wave int) string { return string(r) + "-rollout-" + strconv.Itoa(wave) }

// Bundle is the ConfigMap of the plan's files.
func (r Run) Bundle() string { return string(r) + "-bundle" }

// Control is the ConfigMap of what people ordered.
func (r Run) Control() string { return string(r) + "-control" }

// Results is the ConfigMap of what became of the clusters.
func (r Run) Results() string { return string(r) + "-results" }

// Wave is the Job of a wave in a round.
func (r Run) Wave(wave, round int) string {
	return r.round(string(r)+"-w"+strconv.Itoa(wave), round)
}

// Driver is the Job of the driver in a round.
func (r Run) Driver(round int) string { return r.round(string(r)+"-driver", round) }

func (r Run) round(name string, round int) string {
	if round > 1 {
		name += "-r" + strconv.Itoa(round)
	}
	return name
}

// Selector selects the objects of the run.
func (r Run) Selector() string { return LabelRun + "=" + string(r) }

// FleetLabel is a fleet's name as the value of a label.
func FleetLabel(name string) string {
	if len(validation.IsValidLabelValue(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	clean := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9_.-]+`).ReplaceAllString(name, "-"), "-_.")
	return strings.Trim(clean[:min(len(clean), 50)]+"-"+hex.EncodeToString(sum[:4]), "-_.")
}

// labels are those of an object of the run.
func (s *Spec) labels(part string) map[string]string {
	return map[string]string{LabelManager: Manager, LabelFleet: FleetLabel(s.Rollout.Fleet), LabelRun: string(s.Run), LabelPart: part}
}
