package load

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
)

func (c *checker) checkStep(s plan.Step, e *stepDecl) {
	at := e.at
	c.checkLabel(s.Name, at.Key("name"))
	c.checkRetry(s.Retry, at.Key("retry"))
	c.checkWhen(c.step["when"], at.Key("when"))
	c.checkTags(s.Tags, at.Key("tags"))
	c.checkClusterName(s.Cluster, at.Key("cluster"))
	c.checkKinds(s, at)
	c.checkOutputs(s, at.Key("outputs"))
	if s.Helm != nil {
		c.checkHelm(s, at.Key("helm"))
	}
	if s.Apply != nil {
		c.checkApply(*s.Apply, at.Key("apply"))
	}
	if s.Wait != nil {
		c.checkWait(*s.Wait, at.Key("wait"))
	}
	if s.Webhook != nil {
		c.checkWebhook(s, at.Key("webhook"))
	}
}

// checkWhole looks at what takes the steps of the whole plan to judge.
func (c *checker) checkWhole(s plan.Step, e *stepDecl, it *instance) {
	if s.Webhook == nil || s.Webhook.Release == "" {
		return
	}
	c.step, c.stepAt = it.tree, e.at
	c.checkWebhookRelease(s, e.at.Key("webhook"))
	c.step, c.stepAt = nil, nil
}

func (c *checker) checkWhen(v any, at document.Path) {
	switch v.(type) {
	case nil, bool, invalid, deferred:
		return
	}
	hint := ""
	if s, ok := v.(string); ok && (s == "true" || s == "false") {
		hint = "write it without quotes"
	} else if ok && !strings.Contains(s, "${{") && strings.ContainsAny(s, ".=") {
		hint = "write an expression as ${{ … }}"
	}
	c.Report(document.Fault{Code: document.CodeWrongType, At: at, Hint: hint}, "when is true or false, got %s", c.describeAt(v, at))
}

var tagName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`)

func (c *checker) checkTags(tags []string, at document.Path) {
	for i, t := range tags {
		switch {
		case t == "":
			if c.isEmptyText(at.Index(i)) {
				c.Report(document.Fault{At: at.Index(i), Hint: "remove it"}, "the tag is empty")
			}
		case len(t) > 63 || !tagName.MatchString(t):
			c.Report(document.Fault{At: at.Index(i), Hint: "use letters, digits, -, _ and ., at most 63"}, "%q cannot be a tag", document.Cut(t, 80))
		case slices.Index(tags, t) < i:
			c.Report(document.Fault{Code: document.CodeDuplicate, At: at.Index(i), Hint: "remove it"}, "the tag %q is given twice", t)
		}
	}
}

// Bounds of retries.
const (
	maxMultiplier = 100
	maxJitter     = 1
)

func (c *checker) checkRetry(r *plan.Retry, at document.Path) {
	if r == nil {
		return
	}
	n, d := at.Key("install_retries"), at.Key("retry_delay_seconds")
	if c.isNumber(n) && (r.InstallRetries < 1 || r.InstallRetries > maxInstallRetries) {
		c.Report(document.Fault{At: n, Hint: "it counts the attempts in all: 1 is no retry"}, "install_retries is %d, but must be from 1 to %d", r.InstallRetries, maxInstallRetries)
	}
	if c.isNumber(d) && r.RetryDelaySeconds != nil && (*r.RetryDelaySeconds < 0 || *r.RetryDelaySeconds > maxRetryDelay) {
		c.Report(document.Fault{At: d, Hint: "it is the longest wait between two attempts"}, "retry_delay_seconds is %v, but must be from 0 to %d", *r.RetryDelaySeconds, maxRetryDelay)
	}
	m, most, jitter := at.Key("multiplier"), at.Key("max_delay_seconds"), at.Key("jitter")
	if c.isNumber(m) && (r.Multiplier < 1 || r.Multiplier > maxMultiplier) {
		c.Report(document.Fault{At: m, Hint: "2 makes each delay twice as long as the one before"}, "multiplier is %v, but must be from 1 to %d", r.Multiplier, maxMultiplier)
	}
	if c.isNumber(most) && (r.MaxDelaySeconds <= 0 || r.MaxDelaySeconds > maxRetryDelay) {
		c.Report(document.Fault{At: most, Hint: "it bounds the delays that multiplier makes"}, "max_delay_seconds is %v, but must be more than 0 and at most %d", r.MaxDelaySeconds, maxRetryDelay)
	}
	if c.isNumber(jitter) && r.Jitter != nil && (*r.Jitter < 0 || *r.Jitter > maxJitter) {
		c.Report(document.Fault{At: jitter, Hint: "0.2 makes each delay up to a fifth shorter"}, "jitter is %v, but must be from 0 to %d", *r.Jitter, maxJitter)
	}
	on := at.Key("on")
	if list, ok := c.value(on).([]any); ok && len(list) == 0 {
		c.ReportField(document.Fault{At: on, Hint: "name a kind of failure, or leave on out for any"}, "on is empty")
	}
	for i, kind := range r.On {
		if kind != "" && slices.Index(r.On, kind) < i {
			c.Report(document.Fault{Code: document.CodeDuplicate, At: on.Index(i), Hint: "remove it"}, "%q is given twice", kind)
		}
	}
}

func (c *checker) checkOutputs(s plan.Step, at document.Path) {
	if s.Include != nil && c.has(at) {
		c.ReportField(document.Fault{At: at, Hint: "read those of its steps: steps.INCLUDE.STEP.outputs.NAME"}, "an include has no outputs of its own")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Outputs)) {
		o, at := s.Outputs[name], at.Key(name)
		if !varName.MatchString(name) {
			c.ReportField(document.Fault{At: at, Hint: "use letters, digits and _ only, and no digit first"}, "%q cannot be the name of an output", name)
		}
		kind, object, ok := strings.Cut(o.Resource, "/")
		if o.Resource != "" && (!ok || kind == "" || object == "" || strings.ContainsAny(o.Resource, " ,") || strings.Contains(object, "/")) {
			c.Report(document.Fault{At: at.Key("resource"), Hint: "write TYPE/NAME, such as service/web"}, "%q is not a resource", document.Cut(o.Resource, 80))
		}
		c.checkLabel(o.Namespace, at.Key("namespace"))
		jsonpath, cel := c.has(at.Key("jsonpath")), c.has(at.Key("cel"))
		switch {
		case jsonpath && cel:
			c.ReportField(document.Fault{At: at.Key("cel"), Hint: "keep one of them"}, "the output %q has both jsonpath and cel", name)
		case !jsonpath && !cel && c.has(at):
			c.ReportField(document.Fault{Code: document.CodeMissingField, At: at, Hint: "give jsonpath or cel"}, "it is not said what the output %q is", name)
		case jsonpath:
			c.checkJSONPath(o.JSONPath, at.Key("jsonpath"))
		case cel:
			c.checkCEL(o.CEL, at.Key("cel"), "object")
		}
	}
}

// checkJSONPath reads a path as far as its braces.
func (c *checker) checkJSONPath(text string, at document.Path) {
	const hint = "write it in braces, such as {.status.phase}"
	if text == "" {
		if c.isEmptyText(at) {
			c.Report(document.Fault{At: at, Hint: hint}, "jsonpath is empty")
		}
		return
	}
	switch paths, err := plan.JSONPaths(text); {
	case err != nil:
		c.Report(document.Fault{At: at}, "jsonpath cannot be read: %v", err)
	case len(paths) == 0:
		c.Report(document.Fault{At: at, Hint: hint}, "jsonpath reads nothing of the object: %q has no path in braces", document.Cut(text, 60))
	}
}

// checkCEL reads an expression over the named values, which has the functions of
// the API server too: what functions there are is not known here.
func (c *checker) checkCEL(text string, at document.Path, names ...string) {
	if text == "" {
		if c.isEmptyText(at) {
			c.Report(document.Fault{At: at, Hint: "write CEL over " + strings.Join(names, " and ")}, "%s is empty", at[len(at)-1])
		}
		return
	}
	if err := expr.Parse(text, names...); err != nil {
		e := asExprError(err)
		hint := ""
		if e.Missing != "" {
			hint = fmt.Sprintf("it is over %s", strings.Join(names, " and "))
		}
		c.Add(c.Source, c.Source.PlainPos(at, text, e.Offset), document.Fault{Code: document.CodeExpression, At: at, Hint: hint}, "%s", e.Message)
	}
}
