package load_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/usage"
	"github.com/kplan-dev/kplan/plan/load"
)

const head = "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: a}\n"

// fill repeats a text, with %d counting, to hostileSize.
func fill(start, format, end string) string {
	var b strings.Builder
	b.WriteString(start)
	for i := 0; b.Len() < hostileSize-len(format)-len(end)-8; i++ {
		b.WriteString(strings.ReplaceAll(format, "%d", fmt.Sprint(i)))
	}
	return b.String() + end
}

// hostile are files of the largest size, made to be slow or to fill the memory.
var hostile = map[string]string{
	"comments":           fill(head, "# c\n", ""),
	"comments in a list": fill(head+"steps:\n", "  # c\n  - a # b\n", ""),
	"long comments":      fill(head+"steps:\n", "#\n", "- a\n"),
	"blank lines":        fill(head+"steps:\n", "\n", "- a\n"),
	"nested flow":        fill(head+"a: ", "[", ""),
	"nested mappings":    fill(head+"a: ", "{a: ", ""),
	"flow of nothing":    fill(head+"a: [", ",", "]"),
	"unknown fields":     fill(head, "f%d: 1\n", ""),
	"unknown on a line":  fill("{", "f%d: 1, ", "}"),
	"duplicate keys":     fill(head+"vars:\n", "  a: {}\n", ""),
	"long key":           fill(head, "k", ": 1\n"),
	"long text":          fill(head+"metadata: \"", "\\u00e9", "\"\n"),
	"wrong types":        fill(head+"steps:\n", "- 1\n", ""),
	"steps without kind": fill(head+"steps:\n", "- {name: a%d}\n", ""),
	"unknown needs":      fill(head+"steps:\n", "- {name: step-%d, needs: [stap-%d]}\n", ""),
	"many needs":         fill(head+"steps:\n- {name: a, wait: {resource: pod/x, for: create}, needs: [", "b%d,", "]}\n"),
	"one cycle":          fill(head+"steps:\n- {name: s-1, needs: [s0]}\n- {name: s0, needs: [s1]}\n", "- {name: s%d0, needs: [s%d1]}\n- {name: s%d1, needs: [s%d0]}\n", ""),
	"webhooks":           fill(head+"steps:\n- {name: r, helm: {chart: oci://a/b}}\n", "- {name: s%d, webhook: {release: r}}\n", ""),
	"releases":           fill(head+"steps:\n", "- {name: s%d, webhook: {release: r}}\n- {name: t%d, helm: {chart: oci://a/b, release: r}}\n", ""),
	"bad expressions":    fill(head+"steps:\n- name: \"", "${{x}}", "\"\n"),
	"unknown variables":  fill(head+"vars:\n  aaaa: {default: 1}\nsteps:\n", "- {name: \"${{vars.aaab}}\"}\n", ""),
	"growing text":       fill(head+"vars: {v: {default: "+strings.Repeat("x", hostileSize/4)+"}}\nsteps:\n", "- {name: \"a${{vars.v}}\"}\n", ""),
	"growing values":     fill(head+"vars: {v: {default: ["+strings.Repeat("x,", hostileSize/16)+"]}}\nsteps:\n", "- {needs: \"${{vars.v}}\"}\n", ""),
	"open expressions":   fill(head+"steps:\n- name: \"", "${{", "\"\n"),
	"odd keys":           fill(head, "0x%d: 1\n", ""),
	"aliases":            fill(head+"a: &a [x, x, x, x]\nb: [", "*a,", "]\n"),
	"wide aliases":       fill(head+"a: &a ["+strings.Repeat("x,", 1000)+"]\nb: [", "*a,", "]\n"),
	"anchors":            fill(head+"a: [", "&a%d x,", "]\n"),
	"documents":          fill(head, "---\n", ""),
	"tags":               fill(head+"a: [", "!!str 1,", "]\n"),
	"block text":         fill(head+"a: |\n", "  x\n", ""),
	"unclosed quote":     fill(head+"a: \"", "x\n", ""),
	"indentation":        head + strings.Repeat(" ", hostileSize/2) + "a: 1\n" + strings.Repeat(" ", hostileSize/4) + "b: 1\n",
	"question marks":     fill(head, "? ", ""),
	"dashes":             fill(head+"a:\n  ", "- ", ""),
	"many expressions":   fill(head+"vars: {a: {default: 1}}\nsteps:\n", "- {name: s%d, description: \"${{ string(vars.a + %d) }}\"}\n", ""),
	"costly expressions": fill(head+"steps:\n", "- {name: s%d, description: \"${{ string(lists.range(5000).filter(x, x > %d).size()) }}\"}\n", ""),
	"groups":             fill(head+"vars: {v: {default: ["+strings.Repeat("[],", 5000)+"]}}\nsteps:\n", "- {name: s%d, for_each: \"${{vars.v}}\", needs: [s%d0], wait: {resource: pod/x, for: create}}\n", ""),
	"group after group":  head + "vars: {v: {default: [" + strings.Repeat("[],", 5000) + "]}}\nsteps:\n- {name: a, for_each: \"${{vars.v}}\", wait: {resource: pod/x, for: create}}\n- {name: b, needs: [a], for_each: \"${{vars.v}}\", wait: {resource: pod/x, for: create}}\n",
	"late groups":        head + "vars: {v: {default: [" + strings.Repeat("[],", 5000) + "]}}\nsteps:\n- {name: a, for_each: \"${{vars.v}}\", wait: {resource: pod/x, for: create}}\n- {name: b, needs: [a], for_each: [" + strings.Repeat("[],", 1000) + "], when: \"${{ steps.a.all(k, true) }}\", wait: {resource: pod/x, for: create}}\n",
	"dashes in names":    fill(head+"steps:\n- name: \"${{ vars.a", "-a", " }}\"\n"),
	"unknown steps":      fill(head+"steps:\n", "- {name: step-%d, description: \"${{ steps.stap-%d.state }}\"}\n", ""),
	"braces in a path":   head + "steps: [{name: a, wait: {resource: pod/x, for: 'jsonpath=" + strings.Repeat("{", hostileSize/2) + "'}}]",
}

// Whatever a file of the largest size has in it, the answer comes soon and can
// be shown. The bound is far above what is usual.
func TestHostile(t *testing.T) {
	if usage.Race() {
		t.Skip("the race detector makes it ten times as long, and nothing runs side by side: make test runs it without")
	}
	for name, src := range hostile {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(src), 1<<20)
			var err error
			usage.Bound(t, 15*time.Second, 1<<30, func() { _, err = load.Parse("p.yaml", []byte(src), load.Options{}) })
			if err != nil {
				require.Less(t, len(err.Error()), 1<<20)
			}
		})
	}
}
