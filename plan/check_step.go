package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/expr"
)

func (c *checker) checkStep(s Step, e *stepDecl) {
	at := e.at
	c.checkLabel(s.Name, at.key("name"))
	c.checkRetry(s.Retry, at.key("retry"))
	c.checkWhen(c.step["when"], at.key("when"))
	c.checkTags(s.Tags, at.key("tags"))
	c.checkClusterName(s.Cluster, at.key("cluster"))
	c.checkKinds(s, at)
	c.checkOutputs(s, at.key("outputs"))
	if s.Helm != nil {
		c.checkHelm(s, at.key("helm"))
	}
	if s.Apply != nil {
		c.checkApply(*s.Apply, at.key("apply"))
	}
	if s.Wait != nil {
		c.checkWait(*s.Wait, at.key("wait"))
	}
	if s.Webhook != nil {
		c.checkWebhook(s, at.key("webhook"))
	}
}

// checkWhole looks at what takes the steps of the whole plan to judge.
func (c *checker) checkWhole(s Step, e *stepDecl, it *instance) {
	if s.Webhook == nil || s.Webhook.Release == "" {
		return
	}
	c.step, c.stepAt = it.tree, e.at
	c.checkWebhookRelease(s, e.at.key("webhook"))
	c.step, c.stepAt = nil, nil
}

func (c *checker) checkWhen(v any, at path) {
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
	c.as(CodeWrongType).addValue(at, hint, "when is true or false, got %s", c.describeAt(v, at))
}

var tagName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`)

func (c *checker) checkTags(tags []string, at path) {
	for i, t := range tags {
		switch {
		case t == "":
			if c.isEmptyText(at.index(i)) {
				c.addValue(at.index(i), "remove it", "the tag is empty")
			}
		case len(t) > 63 || !tagName.MatchString(t):
			c.addValue(at.index(i), "use letters, digits, -, _ and ., at most 63", "%q cannot be a tag", cut(t, 80))
		case slices.Index(tags, t) < i:
			c.as(CodeDuplicate).addValue(at.index(i), "remove it", "the tag %q is given twice", t)
		}
	}
}

// Bounds of retries.
const (
	maxMultiplier = 100
	maxJitter     = 1
)

func (c *checker) checkRetry(r *Retry, at path) {
	if r == nil {
		return
	}
	n, d := at.key("install_retries"), at.key("retry_delay_seconds")
	if c.isNumber(n) && (r.InstallRetries < 1 || r.InstallRetries > maxInstallRetries) {
		c.addValue(n, "it counts the attempts in all: 1 is no retry", "install_retries is %d, but must be from 1 to %d", r.InstallRetries, maxInstallRetries)
	}
	if c.isNumber(d) && r.RetryDelaySeconds != nil && (*r.RetryDelaySeconds < 0 || *r.RetryDelaySeconds > maxRetryDelay) {
		c.addValue(d, "it is the longest wait between two attempts",
			"retry_delay_seconds is %v, but must be from 0 to %d", *r.RetryDelaySeconds, maxRetryDelay)
	}
	m, most, jitter := at.key("multiplier"), at.key("max_delay_seconds"), at.key("jitter")
	if c.isNumber(m) && (r.Multiplier < 1 || r.Multiplier > maxMultiplier) {
		c.addValue(m, "2 makes each delay twice as long as the one before", "multiplier is %v, but must be from 1 to %d", r.Multiplier, maxMultiplier)
	}
	if c.isNumber(most) && (r.MaxDelaySeconds <= 0 || r.MaxDelaySeconds > maxRetryDelay) {
		c.addValue(most, "it bounds the delays that multiplier makes", "max_delay_seconds is %v, but must be more than 0 and at most %d", r.MaxDelaySeconds, maxRetryDelay)
	}
	if c.isNumber(jitter) && r.Jitter != nil && (*r.Jitter < 0 || *r.Jitter > maxJitter) {
		c.addValue(jitter, "0.2 makes each delay up to a fifth shorter", "jitter is %v, but must be from 0 to %d", *r.Jitter, maxJitter)
	}
	on := at.key("on")
	if list, ok := c.value(on).([]any); ok && len(list) == 0 {
		c.addKey(on, "name a kind of failure, or leave on out for any", "on is empty")
	}
	for i, kind := range r.On {
		if kind != "" && slices.Index(r.On, kind) < i {
			c.as(CodeDuplicate).addValue(on.index(i), "remove it", "%q is given twice", kind)
		}
	}
}

func (c *checker) checkOutputs(s Step, at path) {
	if s.Include != nil && c.has(at) {
		c.addKey(at, "read those of its steps: steps.INCLUDE.STEP.outputs.NAME", "an include has no outputs of its own")
		return
	}
	for _, name := range sortedKeys(s.Outputs) {
		o, at := s.Outputs[name], at.key(name)
		if !varName.MatchString(name) {
			c.addKey(at, "use letters, digits and _ only, and no digit first", "%q cannot be the name of an output", name)
		}
		kind, object, ok := strings.Cut(o.Resource, "/")
		if o.Resource != "" && (!ok || kind == "" || object == "" || strings.ContainsAny(o.Resource, " ,") || strings.Contains(object, "/")) {
			c.addValue(at.key("resource"), "write TYPE/NAME, such as service/web", "%q is not a resource", cut(o.Resource, 80))
		}
		c.checkLabel(o.Namespace, at.key("namespace"))
		jsonpath, cel := c.has(at.key("jsonpath")), c.has(at.key("cel"))
		switch {
		case jsonpath && cel:
			c.addKey(at.key("cel"), "keep one of them", "the output %q has both jsonpath and cel", name)
		case !jsonpath && !cel && c.has(at):
			c.as(CodeMissingField).addKey(at, "give jsonpath or cel", "it is not said what the output %q is", name)
		case jsonpath:
			c.checkJSONPath(o.JSONPath, at.key("jsonpath"))
		case cel:
			c.checkCEL(o.CEL, at.key("cel"), "object")
		}
	}
}

// checkJSONPath reads a path as far as its braces.
func (c *checker) checkJSONPath(text string, at path) {
	const hint = "write it in braces, such as {.status.phase}"
	if text == "" {
		if c.isEmptyText(at) {
			c.addValue(at, hint, "jsonpath is empty")
		}
		return
	}
	found := false
	for rest := text; ; {
		i := strings.IndexByte(rest, '{')
		if i < 0 {
			break
		}
		end, err := closingBrace(rest[i:])
		if err != nil {
			c.addValue(at, "", "jsonpath cannot be read: %v", err)
			return
		}
		found = found || strings.Trim(rest[i:i+end+1], "{} ") != ""
		rest = rest[i+end+1:]
	}
	if !found {
		c.addValue(at, hint, "jsonpath reads nothing of the object: %q has no path in braces", cut(text, 60))
	}
}

// checkCEL reads an expression over the named values, which has the functions of
// the API server too: what functions there are is not known here.
func (c *checker) checkCEL(text string, at path, names ...string) {
	if text == "" {
		if c.isEmptyText(at) {
			c.addValue(at, "write CEL over "+strings.Join(names, " and "), "%s is empty", at[len(at)-1])
		}
		return
	}
	if err := expr.Parse(text, names...); err != nil {
		e := asExprError(err)
		hint := ""
		if e.Missing != "" {
			hint = fmt.Sprintf("it is over %s", strings.Join(names, " and "))
		}
		c.as(CodeExpression).add(c.src, c.src.plainPos(at, text, e.Offset), at.String(), hint, "%s", e.Message)
	}
}
