package load

import (
	"reflect"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/document/decode"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// decoder fills a plan, or a part of one, from the values of the file.
func (p *pass) decoder() *decode.Decoder {
	return &decode.Decoder{Reporter: p.Reporter, Types: types, Near: &p.near, Unsaid: value.IsUnsaid, Known: value.Known, Hidden: p.vars.Hides}
}

// set decodes v, which stands at a path, into what dst points to.
func (p *pass) set(dst any, v any, at path) { p.decoder().Set(reflect.ValueOf(dst).Elem(), v, at) }

// describeAt says what the value at a path is, unless it comes from a variable: it may be
// a secret.
func (p *pass) describeAt(v any, at path) string { return p.decoder().DescribeAt(v, at) }

// quote is describeAt for a text of which only some are good.
func (p *pass) quote(s string, at path) string { return p.decoder().Quote(s, at) }

// types are those of a plan.
var types = &decode.Types{
	Enums: map[reflect.Type][]string{
		reflect.TypeFor[plan.WaitFor]():     {string(plan.WaitNone), string(plan.WaitHooks), string(plan.WaitReady)},
		reflect.TypeFor[plan.OnImmutable](): {string(plan.FailImmutable), string(plan.RecreateImmutable)},
		reflect.TypeFor[plan.OnFailure]():   {string(plan.KeepRelease), string(plan.RollbackRelease), string(plan.UninstallRelease)},
		reflect.TypeFor[plan.CRDPolicy]():   {string(plan.SkipCRDs), string(plan.CreateCRDs), string(plan.UpgradeCRDs)},
		reflect.TypeFor[plan.Drift]():       {string(plan.CorrectDrift), string(plan.ReportDrift), string(plan.IgnoreDrift)},
		reflect.TypeFor[plan.HelmEngine]():  {string(plan.Helm3), string(plan.Helm4)},
		reflect.TypeFor[plan.ServerSide]():  {string(plan.ServerSideAuto), string(plan.ServerSideTrue), string(plan.ServerSideFalse)},
		reflect.TypeFor[plan.NeedOn]():      {string(plan.NeedSuccess), string(plan.NeedFailure), string(plan.NeedAlways)},
		reflect.TypeFor[plan.VarType](): {
			string(plan.VarString), string(plan.VarNumber), string(plan.VarInteger), string(plan.VarBoolean), string(plan.VarList), string(plan.VarMap), string(plan.VarAny),
		},
		reflect.TypeFor[plan.RetryOn](): {
			string(plan.RetryWebhook), string(plan.RetryNetwork), string(plan.RetryConflict), string(plan.RetryTimeout), string(plan.RetryNotReady), string(plan.RetryAny),
		},
	},
	Short: map[reflect.Type]decode.Short{
		reflect.TypeFor[plan.Need]():      {Field: "Step"},
		reflect.TypeFor[plan.Readiness](): {Field: "Ready"},
		reflect.TypeFor[plan.ForEach]():   {Field: "In", Long: isLongForEach},
	},
	Special: map[reflect.Type]func(*decode.Decoder, reflect.Value, any, document.Path){
		stepsType: func(d *decode.Decoder, dst reflect.Value, v any, at document.Path) { // read by declareSteps
			if _, ok := v.([]any); !ok {
				d.WrongType(dst.Type(), v, at)
			}
		},
	},
	Aliases: map[string]string{
		"depends_on": "needs", "dependsOn": "needs", "dependencies": "needs", "after": "needs",
		"retries": "install_retries", "attempts": "install_retries", "delay": "retry_delay_seconds",
		"valueFiles": "values_files", "values_file": "values_files", "set": "values",
		"variables": "vars", "manifests": "files", "condition": "for", "labels": "selector",
	},
}

// isLongForEach reports whether v is a mapping of in and parallel rather than the items
// themselves: its
// in is a list, or there is nothing else.
func isLongForEach(v any) bool {
	m, ok := v.(map[string]any)
	if !ok || m["in"] == nil {
		return false
	}
	if _, isList := m["in"].([]any); isList {
		return true
	}
	for k := range m {
		if k != "in" && k != "parallel" {
			return false
		}
	}
	return true
}
