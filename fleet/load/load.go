// Package load reads a fleet file: its document is read, its fields are decoded and
// validated, its expressions are checked, and the plan that it names is looked at as far as
// the fleet says something of it.
//
// It looks at files only: which clusters there are is for package inventory. What the
// expressions say of one is asked of the [Fleet].
package load

import (
	"path/filepath"
	"reflect"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/internal/nearest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/document/decode"
	"github.com/kplan-dev/kplan/plan/expr"
	planload "github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/plan/redact"
)

// Options are the values of the plan's variables that are given from outside, beside those
// of the fleet.
type Options = planload.Options

// Fleet is a fleet file that was read, and what its expressions say of clusters. It is safe
// for concurrent use.
type Fleet struct {
	*fleet.Fleet
	// PlanFile is the absolute path of the plan, and PlanName its path as people know it:
	// relative to the current folder if that of the fleet is.
	PlanFile, PlanName string

	source  *document.Source
	secrets *redact.Set
	env     *expr.Env
	// takes and selects are the compiled Select of inventory entries and waves; nil where
	// there is none.
	takes, selects []*expr.Program
}

// Nearly every line of this package speaks of these.
type (
	path  = document.Path
	fault = document.Fault
)

// pass goes through one file, and reports what is wrong with it.
type pass struct {
	document.Reporter
	*Fleet
	near nearest.Finder
	// tree are the values of the file.
	tree map[string]any
	// bad are the variables whose values have a fault that is reported.
	bad map[string]bool
}

// File reads the fleet file at a path, and checks all that can be known without a cluster,
// the plan that it names included. The error is a document.Diagnostics with every fault.
func File(name string, in Options) (*Fleet, error) {
	src, err := read(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	p, err := newPass(name)
	if err != nil {
		return nil, err
	}
	if !p.parse(src) {
		return nil, p.Err()
	}
	p.check()
	more := p.checkPlan(in)
	if err := join(p.Err(), more); err != nil {
		return nil, err
	}
	return p.Fleet, nil
}

// Parse reads a fleet from src as File does, but does not look at the plan that it names.
// Messages call the file name.
func Parse(name string, src []byte) (*Fleet, error) {
	p, err := newPass(name)
	if err != nil {
		return nil, err
	}
	if p.parse(src) {
		p.check()
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return p.Fleet, nil
}

func newPass(name string) (*pass, error) {
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, unreadable(name, err)
	}
	secrets := &redact.Set{}
	f := &Fleet{Fleet: &fleet.Fleet{File: name, Dir: dir}, secrets: secrets, env: newEnv()}
	return &pass{Reporter: document.Reporter{Faults: &document.Faults{Secrets: secrets}}, Fleet: f, bad: map[string]bool{}}, nil
}

// unreadable is the error of a fleet file that cannot be read.
func unreadable(name string, err error) error {
	return document.Diagnostics{{Pos: document.Pos{File: name}, Code: document.CodeFile, Message: document.Clean(err.Error())}}
}

// parse fills the fleet from the values of the file. It is not ok when nothing can be
// understood of them.
func (p *pass) parse(src []byte) (ok bool) {
	s, tree, ok := document.Read(p.File, src, document.Options{Keys: document.FleetKeys}, p.Faults)
	p.Source, p.source = s, s
	if !ok {
		return false
	}
	if p.tree, ok = tree.(map[string]any); !ok {
		p.Report(fault{Code: document.CodeWrongType, Hint: "start with apiVersion: " + plan.APIVersion}, "expected a fleet, which is a mapping, got %s", document.Describe(tree))
		return false
	}
	if p.tree["kind"] == plan.PlanKind {
		p.Report(fault{Code: document.CodeUnknownValue, At: path{"kind"}, Hint: "write a fleet that names it, or use a command for plans: kplan validate, kplan run"}, "this is a plan, but a fleet is wanted")
		return false
	}
	d := &decode.Decoder{Reporter: p.Reporter, Types: types, Near: &p.near}
	d.Set(reflect.ValueOf(p.Fleet.Fleet).Elem(), p.tree, nil)
	return true
}

// join puts the faults of the fleet before those of its plan.
func join(of error, more document.Diagnostics) error {
	all, _ := of.(document.Diagnostics) //nolint:errorlint // Faults.Err gives the type itself
	all = append(all, more...)
	if len(all) == 0 {
		return nil
	}
	return all
}
