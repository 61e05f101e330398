package script

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/lint/secret"
)

// variable is one of the script that the plan may read.
type variable struct {
	// env is the environment variable that gives the value; "" for none.
	env string
	// fallback is the value otherwise; nil when there is none.
	fallback *string
	about    string
	at       document.Place
}

// declare makes a variable of the plan, or returns the one that is the same. A script
// that gives a name another value makes another one.
func (im *importer) declare(name string, v variable) string {
	id := foreign.Identifier(strings.ToLower(name))
	if id == "" {
		id = "value"
	}
	try := id
	for i := 2; im.vars[try] != nil && !im.vars[try].is(v); i++ {
		try = id + "_" + strconv.Itoa(i)
	}
	if im.vars[try] == nil {
		im.vars[try] = &v
	}
	return try
}

// aims are variables of the environment that say where helm and kubectl work.
var aims = []string{"KUBECONFIG", "HELM_KUBECONTEXT", "HELM_NAMESPACE", "HELM_KUBEAPISERVER", "HELM_KUBETOKEN", "HELM_KUBEASUSER"}

// aimed is what to do about them.
const aimed = "give it to kplan run too: --kubeconfig, --context, --namespace; or name it under clusters of the plan"

// aim tells of a variable that is set, if it is one of these: the plan's steps work
// elsewhere.
func (w *walker) aim(n syntax.Node, name string) {
	if slices.Contains(aims, name) {
		w.lost(n, aimed, "where helm and kubectl work by the variable %s is not imported", name)
	}
}

func (v *variable) is(other variable) bool {
	return v.env == other.env && (v.fallback == nil) == (other.fallback == nil) && (v.fallback == nil || *v.fallback == *other.fallback)
}

// literal is a text with the values that are known in the place of variables; all others
// are left out.
func (im *importer) literal(text string) string {
	return foreign.Replace(text, func(code string) string {
		if v := im.vars[strings.TrimPrefix(code, "vars.")]; v != nil && v.fallback != nil {
			return *v.fallback
		}
		return ""
	})
}

// declareVars declares those that the plan reads.
func (im *importer) declareVars() {
	reads := im.plan.Reads()
	for _, f := range im.result.Files {
		for _, name := range slices.Sorted(maps.Keys(im.vars)) {
			if strings.Contains(string(f.Data), "${{ vars."+name+" }}") && !slices.Contains(reads, name) {
				reads = append(reads, name)
			}
		}
	}
	for _, name := range reads {
		v := im.vars[name]
		if v == nil || im.plan.Vars.Value(name) != nil {
			continue
		}
		f := im.plan.Var(name, v.about)
		f.Set("env", v.env)
		hidden := secret.Named(name) || v.fallback != nil && secret.In(*v.fallback) != ""
		switch {
		case hidden && v.fallback != nil && *v.fallback != "":
			im.result.Add(foreign.SecretFinding(v.at, name))
		case v.fallback != nil && !hidden:
			f.Keep("default", foreign.TextNode(*v.fallback))
		case v.env == "" && !hidden:
			im.result.Before("give the variable %s, which the script finds out when it runs", name)
		}
		if hidden {
			f.Set("sensitive", true)
		}
	}
}
