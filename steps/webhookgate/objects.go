package webhookgate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/webhook/probe"
)

// objects are what a step can ask webhooks with. All have a namespace, also
// those of kinds without.
type objects struct {
	canaries []probe.Canary
	// files are those in the step's files.
	files []*unstructured.Unstructured
	// later are those of the apply steps that come after the step.
	later []*unstructured.Unstructured
}

// objectsOf reads the files that a step names, and those of later steps.
func objectsOf(owners diagnosis.Owners, step plan.Step, from *source.Store) (objects, error) {
	var o objects
	spec := *step.Webhook
	read := func(files ...string) ([]*unstructured.Unstructured, error) {
		found, err := manifest.Objects(context.Background(), plan.Step{Dir: step.Dir, Apply: &plan.Apply{Files: files, Namespace: cmp.Or(spec.Namespace, owners.Namespace)}}, from)
		return manifest.Bare(found), err
	}
	var err error
	if o.files, err = read(spec.Files...); err != nil {
		return o, err
	}
	if spec.Canary != nil {
		if o.canaries, err = canariesOf(*spec.Canary, read); err != nil {
			return o, err
		}
	}
	o.later = laterObjects(owners, step.Name, from)
	return o, nil
}

// custom reports whether any object of the step's files may be of a kind that a CRD
// defines: its group is none of Kubernetes' own.
func (o objects) custom() bool {
	return slices.ContainsFunc(o.files, func(u *unstructured.Unstructured) bool {
		return !scheme.Scheme.IsGroupRegistered(u.GroupVersionKind().Group)
	})
}

func canariesOf(spec plan.Canary, read func(...string) ([]*unstructured.Unstructured, error)) ([]probe.Canary, error) {
	var canaries []probe.Canary
	add := func(want probe.Want, file string, expect *probe.Condition) error {
		found, err := read(file)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("the %s canary %s holds no object", want, file)
		}
		for _, u := range found {
			c := probe.Canary{Want: want, Object: u, Expect: expect, Source: file}
			if expect != nil {
				if holds, err := expect.Holds(u, u); err == nil && holds {
					return fmt.Errorf("%s: this is true of the object as it is in the file, so it shows no change: %s", c, expect)
				}
			}
			canaries = append(canaries, c)
		}
		return nil
	}
	for _, file := range spec.Accept {
		if err := add(probe.Accept, file, nil); err != nil {
			return nil, err
		}
	}
	for _, file := range spec.Deny {
		if err := add(probe.Deny, file, nil); err != nil {
			return nil, err
		}
	}
	for _, m := range spec.Mutate {
		expect, err := probe.Compile(m.Expect)
		if err != nil {
			return nil, fmt.Errorf("canary.mutate of %s: expect: %w", m.File, err)
		}
		if err := add(probe.Mutate, m.File, expect); err != nil {
			return nil, err
		}
	}
	return canaries, nil
}

// laterObjects are those of the apply steps on the same cluster that need the named
// step, directly or not, but for those that are fetched. Faults in their files are for
// them to tell.
func laterObjects(owners diagnosis.Owners, name string, from *source.Store) []*unstructured.Unstructured {
	later := owners.Plan.Graph().Descendants(name)
	var all []*unstructured.Unstructured
	for _, s := range owners.Steps() {
		if s.Apply == nil || source.Fetches(s) || !slices.Contains(later, s.Name) {
			continue
		}
		spec := *s.Apply
		spec.Namespace = cmp.Or(spec.Namespace, owners.Namespace)
		s.Apply = &spec
		if found, err := manifest.Objects(context.Background(), s, from); err == nil {
			all = append(all, manifest.Bare(found)...)
		}
	}
	return all
}
