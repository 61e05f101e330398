package export_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet/export"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/redact"
)

// quiet are fields of steps whose setting changes nothing that an engine would have to know.
var quiet = map[string]string{
	"name": "it is the object's", "description": "for people", "tags": "to pick steps by", "for_each": "one step for each item is there already",
	"needs": "see TestGolden",
	"helm":  "a kind", "apply": "a kind", "wait": "a kind", "webhook": "a kind", "delete": "a kind", "include": "a kind",
	"helm.evaluate": "the texts are evaluated already", "apply.evaluate": "the texts are evaluated already",
	"helm.reset_values":           "the default",
	"helm.plain_http":             "for charts of registries, see TestGolden",
	"helm.take_ownership argocd":  "what Argo CD does",
	"helm.force_conflicts argocd": "what Argo CD does", "apply.force_conflicts": "what both do",
	"apply.plain_http":  "for what comes from registries, which is told of",
	"apply.wait argocd": "what Argo CD does",
	"apply.files":       "there have to be files, see TestGolden", "helm.values_files": "there have to be files, see TestGolden",
}

// values are those of fields that take few.
var valuesOf = map[string]any{
	"helm.crds": plan.UpgradeCRDs, "helm.wait": plan.WaitNone, "apply.wait": plan.WaitReady, "helm.on_failure": plan.RollbackRelease,
	"helm.drift": plan.IgnoreDrift, "apply.on_immutable": plan.RecreateImmutable, "helm.server_side": plan.ServerSideTrue,
}

// Every field of a step that is set makes a difference: in the objects, in the files, or in
// what is told. So does every field of the defaults.
func TestNothingIsSilent(t *testing.T) {
	for _, target := range export.Targets {
		if target.Pods {
			continue // the whole plan is in the pods
		}
		for _, kind := range []plan.Kind{plan.KindHelm, plan.KindApply} {
			with := func(change func(*plan.Plan, *plan.Step)) string { return exported(t, target, kind, change) }
			bare := with(func(*plan.Plan, *plan.Step) {})
			fields(reflect.TypeFor[plan.Step](), "", func(name string, index []int) {
				if quiet[name] != "" || quiet[name+" "+target.Name] != "" {
					return
				}
				if first, _, inner := strings.Cut(name, "."); inner && (first == "helm" || first == "apply") && first != string(kind) || first == "wait" || first == "webhook" || first == "delete" || first == "include" {
					return
				}
				got := with(func(_ *plan.Plan, s *plan.Step) { set(reflect.ValueOf(s).Elem(), index, valuesOf[name]) })
				assert.False(t, bare == got, "%s: %s of a step of the kind %s is left out in silence", target.Name, name, kind)
			})
			fields(reflect.TypeFor[plan.Defaults](), "", func(name string, index []int) {
				if strings.HasPrefix(name, "helm") {
					return // they are put into the steps when the plan is read
				}
				got := with(func(p *plan.Plan, _ *plan.Step) { set(reflect.ValueOf(&p.Defaults).Elem(), index, nil) })
				assert.False(t, bare == got, "%s: defaults.%s is left out in silence", target.Name, name)
			})
		}
	}
}

// exported is all that is made of a plan with one step.
func exported(t *testing.T, target export.Target, kind plan.Kind, change func(*plan.Plan, *plan.Step)) string {
	t.Helper()
	s := plan.Step{Name: "one", Helm: &plan.Helm{Chart: "one", Repo: "https://charts.example.com", Namespace: "one"}}
	if kind == plan.KindApply {
		s.Helm, s.Apply = nil, &plan.Apply{Namespace: "one", Objects: []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "one"}}}}
	}
	p := &plan.Plan{Metadata: plan.Metadata{Name: "p"}, File: "plan.yaml", Sensitive: &redact.Set{}, Clusters: map[string]plan.Cluster{"x": {}}, Defaults: plan.Defaults{Retry: &plan.Retry{InstallRetries: 2}}}
	change(p, &s)
	p.Steps = []plan.Step{s}
	r, err := export.Export(target, export.Input{Plan: p})
	require.NoError(t, err)
	return fmt.Sprint(texts(t, "", r))
}

// fields calls f with each field that a file can set, and with each one of the structs in them.
func fields(of reflect.Type, prefix string, f func(name string, index []int)) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		f(prefix+name, []int{i})
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && prefix == "" {
			fields(inner, name+".", func(name string, index []int) { f(name, append([]int{i}, index...)) })
		}
	}
}

// set gives a field a value that is not its zero.
func set(v reflect.Value, index []int, value any) {
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	if value != nil {
		v.Set(reflect.ValueOf(value))
		return
	}
	fill(v)
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		fill(v.Field(0))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(3)
	default:
		v.SetInt(3_000_000_000)
	}
}
