package expr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/usage"
	"github.com/kplan-dev/kplan/plan/expr"
)

// values are what the expressions of these tests see.
func values() map[string]any {
	return map[string]any{
		"vars": map[string]any{
			"name": "web", "n": int64(3), "ratio": 0.5, "on": true, "none": nil,
			"hosts": []any{"a.example", "b.example"},
			"image": map[string]any{"tag": "1.10", "pull-policy": "Always", "in": "x", "é": "e", "parts": []any{map[string]any{"a-b": "deep"}}},
			"huge":  json.Number("123456789012345678901234567890"),
			"u64":   json.Number("18446744073709551615"),
			"any":   map[string]any{"x": int64(1)},
		},
		"each": map[string]any{"key": "k", "value": int64(1)},
		"steps": map[string]any{
			"eso-webhook": map[string]any{"state": "succeeded", "outputs": map[string]any{"ip": "10.0.0.1"}},
			"eso":         map[string]any{"state": "failed", "outputs": map[string]any{}},
			"pull":        map[string]any{"a-1": map[string]any{"state": "succeeded", "outputs": map[string]any{}}},
		},
	}
}

func names() map[string]expr.Type {
	step := func(name string, outputs ...string) expr.Type {
		fields := map[string]expr.Type{}
		for _, o := range outputs {
			fields[o] = expr.Any
		}
		return expr.NewObject("steps."+name, expr.Fields(map[string]expr.Type{
			"state":   expr.String,
			"outputs": expr.NewObject("steps."+name+".outputs", expr.Fields(fields)).Type(),
		})).Type()
	}
	return map[string]expr.Type{
		"vars": expr.NewObject("vars", expr.Fields(map[string]expr.Type{
			"name": expr.String, "n": expr.Int, "ratio": expr.Double, "on": expr.Bool, "none": expr.Any,
			"hosts": expr.List, "image": expr.Map, "huge": expr.Any, "u64": expr.Any, "any": expr.Any,
		})).Type(),
		"each": expr.NewObject("each", expr.Fields(map[string]expr.Type{"key": expr.String, "value": expr.Int})).Type(),
		"steps": expr.NewObject("steps", expr.Fields(map[string]expr.Type{
			"eso-webhook": step("eso-webhook", "ip"), "eso": step("eso", "ip"), "pull": expr.MapOf(step("pull.")),
		})).Type(),
	}
}

func has(path []string) bool {
	var v any = values()
	for _, name := range path {
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			v = at[0]
		}
	}
	return v != nil
}

func newEnv() *expr.Env { return expr.NewEnv(names(), has) }

// An expression keeps the type of its value, names with dashes need no quotes,
// and what follows names only gives the same as CEL itself would.
func TestEval(t *testing.T) {
	for text, want := range map[string]any{
		"vars.name":                           "web",
		"vars.n":                              int64(3),
		"vars.n-1":                            int64(2),
		"vars.n - 1":                          int64(2),
		"vars.ratio":                          0.5,
		"vars.ratio * 2.0":                    1.0,
		"vars.on":                             true,
		"vars.none":                           nil,
		"vars.hosts":                          []any{"a.example", "b.example"},
		"vars.hosts[1]":                       "b.example",
		"vars.image.tag":                      "1.10",
		`vars.image["tag"]`:                   "1.10",
		"vars.image.pull-policy":              "Always",
		`vars.image.pull-policy + "!"`:        "Always!",
		"vars.image.in":                       "x",
		"vars.image.parts[0].a-b":             "deep",
		`vars.image["é"] + vars.name`:         "eweb",
		"vars.huge":                           json.Number("123456789012345678901234567890"),
		"[vars.huge]":                         []any{json.Number("123456789012345678901234567890")},
		"[vars.u64]":                          []any{json.Number("18446744073709551615")},
		"each.key":                            "k",
		"each.value + 1":                      int64(2),
		"steps.eso-webhook.outputs.ip":        "10.0.0.1",
		"steps.eso.state":                     "failed",
		`steps.eso-webhook.state == "failed"`: false,
		"has(steps.eso.outputs.ip)":           false,
		"has(steps.eso-webhook.outputs.ip)":   true,
		"steps.pull.a-1.state":                "succeeded",
		`steps.pull.all(k, steps.pull[k].state == "succeeded")`: true,
		`vars.on ? {"a": [1, 2.5, null]} : {}`:                  map[string]any{"a": []any{int64(1), 2.5, nil}},
		`vars.hosts.map(h, "https://" + h)`:                     []any{"https://a.example", "https://b.example"},
		`vars.hosts.transformMapEntry(i, h, {h: i})`:            map[string]any{"a.example": int64(0), "b.example": int64(1)},
		`vars.hosts.join(",")`:                                  "a.example,b.example",
		`"%s-%d".format([vars.name, vars.n])`:                   "web-3",
		`base64.encode(b"x")`:                                   "eA==",
		`sets.contains(vars.hosts, ["a.example"])`:              true,
		`cel.bind(x, vars.n, x * x)`:                            int64(9),
		`math.greatest(1, vars.n)`:                              int64(3),
		`"vars.a-b"`:                                            "vars.a-b",
		`r"\" + "vars.a-b"`:                                     `\vars.a-b`,
		`vars.name.matches("^w.b$")`:                            true,
		`vars.n > 2.5`:                                          true,
		"vars.n // how many":                                    int64(3),
	} {
		t.Run(text, func(t *testing.T) {
			p, err := newEnv().Compile(text)
			require.NoError(t, err)
			got, err := p.Eval(values(), expr.NewBudget())
			require.NoError(t, err)
			require.Equal(t, want, got)
			p, err = newEnv().Compile("(" + strings.Split(text, " // ")[0] + ")") // a form that only CEL can take
			require.NoError(t, err)
			got, err = p.Eval(values(), expr.NewBudget())
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// A value of an expression can be changed without a change to where it came from.
func TestEvalSharesNothing(t *testing.T) {
	all := values()
	for _, text := range []string{"vars.image", "cel.bind(x, vars.image, x)", "{'a': vars.image}.a"} {
		p, err := newEnv().Compile(text)
		require.NoError(t, err)
		got, err := p.Eval(all, expr.NewBudget())
		require.NoError(t, err)
		got.(map[string]any)["tag"] = "changed"
		require.Equal(t, values(), all)
	}
}

// A fault is told where it is, in bytes from the start, and names what is missing.
func TestCompileError(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "0: the expression is empty",
		"vars.nmae":                            `5: vars has no field "nmae" (nmae)`,
		"1 + vars.nmae":                        `9: vars has no field "nmae" (nmae)`,
		`"é" + vars.nmae`:                      `12: vars has no field "nmae" (nmae)`,
		"steps.eso-webhok.state":               `6: steps has no field "eso-webhok" (eso-webhok)`,
		"true || steps.eso-webhok.state == ''": `14: steps has no field "eso-webhok" (eso-webhok)`,
		"steps.eso-webhook.outputs.ipp":        `26: steps.eso-webhook.outputs has no field "ipp" (ipp)`,
		"var.name":                             `0: the name "var" is not known (var)`,
		"env.HOME":                             `0: the name "env" is not known (env)`,
		"vars.name + 1":                        "10: + cannot be used on (string, int)",
		"steps.eso-webhook.state + 1":          "24: + cannot be used on (string, int)",
		"vars.name.nope()":                     `10: there is no function "nope" (nope)`,
		"vars.n.x":                             "6: type 'int' does not support field selection",
		"vars.on ? 1 : 'a'":                    "8: ? : cannot be used on (bool, int, string)",
		"vars.":                                "5: the expression cannot be read: no viable alternative at input '.'",
		"1 +":                                  "3: the expression ends too early",
		"vars":                                 "0: vars is not a value: name one of its fields",
		"[steps.eso]":                          "1: steps.eso is not a value: name one of its fields",
		"dyn(steps.eso).state":                 "4: steps.eso is not a value: name one of its fields",
		"vars{n: 1}":                           `4: the name "vars" is not known (vars)`,
		"vars.hosts.map(a, vars.hosts.map(b, vars.hosts.map(c, a + b + c)))": "0: the expression may take too long: let it go over fewer lists inside of each other",
		strings.Repeat("1+", 5000) + "1":                                     "0: the expression is too long: it has more than 8192 bytes",
		strings.Repeat("(", 4000):                                            "0: the expression is nested too deeply",
	} {
		t.Run(cut(text), func(t *testing.T) {
			_, err := newEnv().Compile(text)
			var e *expr.Error
			require.ErrorAs(t, err, &e)
			got := fmt.Sprintf("%d: %s", e.Offset, e.Message)
			if e.Missing != "" {
				got += " (" + e.Missing + ")"
			}
			require.Equal(t, want, got)
		})
	}
}

func cut(s string) string { return s[:min(len(s), 60)] }

// A fault of an evaluation is told without any value, for values may be secret.
func TestEvalError(t *testing.T) {
	for text, want := range map[string]string{
		"vars.image.nope":          `11: vars.image has no field "nope"`,
		"vars.any.x.y":             "11: vars.any.x is no mapping, but a number",
		"vars.hosts[2]":            "10: vars.hosts has 2 items, there is no [2]",
		"vars.image.tag[0]":        "14: vars.image.tag is no list, but text",
		"1 + vars.image.nope":      "14: a map does not have the key that is asked for",
		"int(vars.image.tag)":      "3: a value cannot be converted, or a function does not take it",
		"vars.n / (vars.n - 3)":    "7: division by zero",
		"vars.any.x + 'a'":         "11: a value is of a type that the operator or function does not take",
		"vars.hosts[each.value+5]": "10: a list does not have the item that is asked for",
		"b'x'":                     "0: a value of the type bytes cannot stand in a plan: convert it with string()",
		"{1: 2}":                   "0: the keys of a map must be text",
		"1.0 / 0.0":                "0: the value is no number that a plan can have",
	} {
		t.Run(text, func(t *testing.T) {
			p, err := newEnv().Compile(text)
			require.NoError(t, err)
			_, err = p.Eval(values(), expr.NewBudget())
			var e *expr.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, want, fmt.Sprintf("%d: %s", e.Offset, e.Message))
		})
	}
}

// Expressions that would take the machine's time or memory end early.
func TestCost(t *testing.T) {
	long, many := strings.Repeat("x", 500_000), make([]any, 50_000)
	for i := range many {
		many[i] = fmt.Sprint("item ", i)
	}
	vals := map[string]any{"s": long, "l": many}
	env := func() *expr.Env { return expr.NewEnv(map[string]expr.Type{"s": expr.String, "l": expr.List}, nil) }
	for _, text := range []string{
		`s.replace("", s)`, `s.replace("x", "xxxxxxxxxxxxxxxxx")`, `l.join(s)`, `l.map(x, s).join()`, `l.distinct()`, `sets.contains(l, l)`,
		`l.map(x, size(s))`, `l.map(x, s == s + "a")`, `l.map(x, l == l)`, `l.map(x, x in l)`, `l.map(x, s + s)`,
		`l.map(x, l.map(y, x + y))`, `lists.range(100000)`, `s.matches(s)`, `l.map(x, s.upperAscii())`,
		`l.map(x, base64.encode(bytes(s)))`, `"%.100000000f".format([1.0])`, `l.map(x, l).flatten()`, `l.map(x, s.split(""))`,
		`l.exists(x, x == "nope")`, `l.filter(x, x == "nope")`, `l.exists_one(x, x == "item 1")`, `l.map(x, {x: x})`, `l.map(x, 1)`, `l.map(x, x.size() > 0)`,
		`l.transformMapEntry(i, x, {x: i})`,
		`s + s + s + s + s + s + s + s + s + s + s + s + s + s`,
	} {
		t.Run(text, func(t *testing.T) {
			p, err := env().Compile(text)
			if err != nil {
				return
			}
			usage.Bound(t, 5*time.Second, 512<<20, func() {
				_, err = p.Eval(vals, expr.NewBudget())
			})
			require.Error(t, err)
		})
	}
}

// What many expressions cost together is bounded too.
func TestBudget(t *testing.T) {
	p, err := newEnv().Compile("lists.range(2000).map(x, x + 1).size()")
	require.NoError(t, err)
	budget := expr.NewBudget()
	for range 10_000 {
		if _, err = p.Eval(values(), budget); err != nil {
			break
		}
	}
	require.EqualError(t, err, "the expressions of the plan take too long")
}

// The names that an expression uses are those that it starts with, not those that
// it makes itself.
func TestRefs(t *testing.T) {
	for text, want := range map[string]string{
		"vars.name":                                 "0 vars.name",
		"vars.hosts[0]":                             "0 vars.hosts",
		`vars.image["tag"]`:                         "0 vars.image.tag",
		"1 + vars.n * vars.n":                       "4 vars.n",
		"has(steps.eso-webhook.outputs.ip)":         "4 steps.eso-webhook.outputs.ip",
		"steps.eso-webhook.state + steps.eso.state": "0 steps.eso-webhook.state, 26 steps.eso.state",
		`steps.pull[each.key].state`:                "0 steps.pull, 11 each.key",
		`vars.hosts.exists(vars, vars == "x")`:      "0 vars.hosts",
		`[1].map(x, x + vars.n)`:                    "15 vars.n",
		`{"a": vars.name, vars.name: vars.ratio}`:   "6 vars.name, 28 vars.ratio",
		`"é" + vars.name`:                           "7 vars.name",
		`"no names"`:                                "",
	} {
		p, err := newEnv().Compile(text)
		require.NoError(t, err, text)
		var got []string
		for _, r := range p.Refs() {
			got = append(got, fmt.Sprint(r.Offset, " ", strings.Join(r.Path, ".")))
		}
		require.Equal(t, want, strings.Join(got, ", "), text)
	}
}

// An expression ends where CEL says, not at the first }} whatever it is in.
func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"plain":                  "0 plain",
		"${{ vars.a }}":          "4 <vars.a>",
		"${{vars.a}}":            "3 <vars.a>",
		"a${{ x }}b${{ y }}":     "0 a|5 <x>|9 b|14 <y>",
		"$${{ x }}":              "0 ${{ x }}",
		"a $${{ ${{ x }} }}":     "0 a ${{ |11 <x>|15  }}",
		`${{ {"a": {"b": 1}} }}`: `4 <{"a": {"b": 1}}>`,
		`${{ {"a": {"b": 1}}}}`:  `4 <{"a": {"b": 1}}>`,
		`${{ "}}" }}`:            `4 <"}}">`,
		`${{ '\'}}' }}`:          `4 <'\'}}'>`,
		`${{ r'\' }}`:            `4 <r'\'>`,
		`${{ """a"}}""" }}`:      `4 <"""a"}}""">`,
		"${{ 1 // don't }}":      "4 <1 // don't>",
		"${{ 1 }}}}":             "4 <1>|8 }}",
		"${{ x":                  "! 0 the expression is not closed: }} is missing",
		"ab ${{ {x":              "! 3 the expression is not closed: a { in it is open",
		`ab ${{ "x }}`:           "! 3 the expression is not closed: a quote in it is open",
		"${{ a }} ${{":           "! 9 the expression is not closed: }} is missing",
	} {
		segments, err := expr.Split(text)
		var got []string
		for _, s := range segments {
			format := "%d %s"
			if s.IsExpr {
				format = "%d <%s>"
			}
			got = append(got, fmt.Sprintf(format, s.Offset, s.Text))
		}
		if e, ok := errors.AsType[*expr.Error](err); ok {
			got = append(got, fmt.Sprintf("! %d %s", e.Offset, e.Message))
		}
		require.Equal(t, want, strings.Join(got, "|"), text)
	}
}

// FuzzExpr: whatever the text, the answer is a value or an error inside of the
// text, soon.
func FuzzExpr(f *testing.F) {
	for _, seed := range []string{
		"vars.name", "vars.image.pull-policy + 'x'", `steps.pull.all(k, steps.pull[k].state == "x")`, "has(steps.eso.outputs.ip) ? 1 : 2",
		`{"a": [1, 2.5, null]}`, "vars.hosts.map(h, h + '-')", "é + vars.`a", "${{ vars.n }} and ${{ x", `"%s".format([vars])`, "r'\\' + b'\\xff'",
		"vars.n-1-vars.n", "steps.eso-webhook-x.state", "vars.image.in.true.null", "1 / 0", "vars.hosts[999999].x-y", "cel.bind(vars, 1, vars)",
	} {
		f.Add(seed)
	}
	env := newEnv()
	f.Fuzz(func(t *testing.T, text string) {
		usage.Bound(t, time.Second, 64<<20, func() { exercise(t, env, text) })
	})
}

func exercise(t *testing.T, env *expr.Env, text string) {
	t.Helper()
	segments, err := expr.Split(text)
	checkError(t, text, err)
	for _, s := range segments {
		require.True(t, s.Offset >= 0 && s.Offset <= len(text))
	}
	p, err := env.Compile(text)
	checkError(t, text, err)
	if err == nil {
		for _, r := range p.Refs() {
			require.True(t, r.Offset >= 0 && r.Offset < len(text))
			require.NotEmpty(t, r.Path)
		}
		_, err = p.Eval(values(), expr.NewBudget())
		checkError(t, text, err)
	}
}

func checkError(t *testing.T, text string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var e *expr.Error
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.Message)
	require.True(t, e.Offset >= 0 && e.Offset <= len(text), "offset %d of %d", e.Offset, len(text))
}

// The bar is well below a second for ten thousand expressions, all different.
func BenchmarkCompile(b *testing.B) {
	for name, format := range map[string]string{
		"names": "vars.image.tag%d", "cel": `vars.name + "-%d"`, "macro": `vars.hosts.map(h, h + "%d").join(",")`,
	} {
		b.Run(name, func(b *testing.B) {
			env := newEnv()
			i := 0
			for b.Loop() {
				if i%2000 == 0 {
					env = newEnv()
				}
				p, err := env.Compile(fmt.Sprintf(format, i))
				if err != nil {
					b.Fatal(err)
				}
				if name != "names" {
					if _, err := p.Eval(values(), expr.NewBudget()); err != nil {
						b.Fatal(err)
					}
				}
				i++
			}
		})
	}
}
