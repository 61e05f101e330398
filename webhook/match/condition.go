package match

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/common/ast"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/expression"
)

// conditions evaluates the match conditions: one that is false leaves the
// webhook out, whatever the others say; then an error counts as failurePolicy
// says; all must be true otherwise (matchconditions/matcher.go). The API
// server's code judges those that need only what is known.
func (m *Matcher) conditions(ctx context.Context, e webhook.Entry, q *request, resource schema.GroupVersionResource, d *doubts) Verdict {
	called := Verdict{Outcome: Calls, Reason: fmt.Sprintf("its rules name %s of %s", q.Operation, q.title()), Resource: resource}
	named := !resource.Empty() // else in a version that is not known
	if named && resource != q.Resource {
		called.Reason += " by its equivalent " + resource.GroupVersion().String()
	}
	if len(e.MatchConditions) == 0 {
		return called
	}
	attrs, converted := &admission.VersionedAttributes{Attributes: q.attrs}, false
	if named {
		attrs.VersionedKind = q.kind(resource)
		converted = q.convert(attrs, m.Cluster.Resources)
	}
	var known []admissionv1.MatchCondition
	var unknown doubts
	planned := false
	for _, c := range e.MatchConditions {
		used := m.uses(c.Expression)
		if what := m.unknown(q, used, named, converted); what != "" {
			unknown.addf("its matchCondition %q needs %s, which is not known", c.Name, what)
			continue
		}
		known = append(known, c)
		planned = planned || q.Planned && used["object"]
	}
	if len(known) > 0 {
		result := m.matcher(known).Match(ctx, attrs, nil, m.Cluster.Authorizer)
		switch {
		case result.FailedConditionName != "":
			return Verdict{Outcome: Skips, Reason: fmt.Sprintf("its matchCondition %q is false", result.FailedConditionName), Resource: resource}
		case result.Error != nil && planned:
			unknown = append(doubts{fmt.Sprintf("its matchConditions fail on the object as planned: %v", result.Error)}, unknown...)
		case result.Error != nil && e.FailurePolicy == admissionv1.Ignore:
			return Verdict{Outcome: Skips, Reason: fmt.Sprintf("its matchConditions fail and its failurePolicy is Ignore: %v", result.Error), Resource: resource}
		case result.Error != nil:
			called.Outcome, called.Reason = Rejects, fmt.Sprintf("its matchConditions fail and its failurePolicy is Fail: %v", result.Error)
		}
	}
	*d = append(*d, unknown...)
	return called
}

// unknown names the first thing that a condition uses and nobody knows; "" if
// there is none.
func (m *Matcher) unknown(q *request, used map[string]bool, named, converted bool) string {
	object, old := q.lacks()
	for _, thing := range []struct {
		variable string
		lacking  bool
		name     string
	}{
		{cel.ObjectVarName, object, "the object"},
		{cel.OldObjectVarName, old, "the old object"},
		{cel.ObjectVarName, !converted, "the object in another version"},
		{cel.OldObjectVarName, !converted, "the old object in another version"},
		{cel.AuthorizerVarName, m.Cluster.Authorizer == nil || q.User == nil, "the user's rights"},
		{"request.kind", !named, "the version that the webhook gets"},
		{"request.userInfo", q.User == nil, "the user"},
		{"request.options", true, "the request's options"},
		{cel.RequestVarName, true, "the whole request"},
	} {
		if thing.lacking && used[thing.variable] {
			return thing.name
		}
	}
	return ""
}

var compiler = sync.OnceValue(func() cel.ConditionCompiler { return cel.NewConditionCompiler(expression.Environment()) })

// matcher compiles conditions as the API server does
// (pkg/admission/plugin/webhook/accessors.go), once. An error is always
// returned, for the policy is applied above.
func (m *Matcher) matcher(conditions []admissionv1.MatchCondition) matchconditions.Matcher {
	key := fmt.Sprintf("%q", conditions)
	if c, ok := m.compiled.Load(key); ok {
		return c.(matchconditions.Matcher)
	}
	expressions := make([]cel.ExpressionAccessor, len(conditions))
	for i, c := range conditions {
		expressions[i] = (*matchconditions.MatchCondition)(&c)
	}
	condition := compiler().CompileCondition(expressions, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	fail := admissionv1.Fail
	c, _ := m.compiled.LoadOrStore(key, matchconditions.NewMatcher(condition, &fail, "webhook", "predict", ""))
	return c.(matchconditions.Matcher)
}

// uses lists the variables of an expression: "object", and of a request
// its fields, as "request.userInfo". Shadowed names are listed too, which
// errs on the side of doubt. What does not parse uses nothing, and fails later.
func (m *Matcher) uses(expression string) map[string]bool {
	if used, ok := m.read.Load(expression); ok {
		return used.(map[string]bool)
	}
	used, _ := m.read.LoadOrStore(expression, uses(expression))
	return used.(map[string]bool)
}

func uses(text string) map[string]bool {
	parsed, issues := expression.Environment().StoredExpressionsEnv().Parse(text)
	if issues.Err() != nil {
		return nil
	}
	used := map[string]bool{}
	fields := map[int64]bool{} // operands of a field selection, which is visited before them
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		default: // has no name
		case ast.SelectKind:
			operand := e.AsSelect().Operand()
			if operand.Kind() == ast.IdentKind && ident(operand) == cel.RequestVarName {
				used[cel.RequestVarName+"."+e.AsSelect().FieldName()] = true
				fields[operand.ID()] = true
			}
		case ast.IdentKind:
			if !fields[e.ID()] {
				used[ident(e)] = true
			}
		}
	}))
	return used
}

// ident is a variable's name without the dot that may lead it.
func ident(e ast.Expr) string { return strings.TrimPrefix(e.AsIdent(), ".") }
