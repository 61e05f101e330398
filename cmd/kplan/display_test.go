//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// watch runs a plan in a terminal; NS in its steps is a namespace.
func watch(t *testing.T, lab *labtest.Lab, ns, steps, flags string) *terminal {
	t.Helper()
	const file = "cat >plan.yaml <<'END'\napiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: display}%sEND\n"
	run := "sh -c 'echo $$ >pid; exec kplan run plan.yaml --record run.jsonl " + flags + "'"
	script := fmt.Sprintf(file, strings.ReplaceAll(steps, "NS", ns)) + fmt.Sprintf(guardedScript, run)
	return newTerminal(t, 100, 30, script, "KUBECONFIG="+lab.Kubeconfig)
}

// pid is that of kplan.
func (s *terminal) pid() int {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	require.NoError(s.t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(s.t, err)
	return n
}

// makeMap makes an empty ConfigMap.
func makeMap(t *testing.T, lab *labtest.Lab, ns, name string) {
	t.Helper()
	_, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// TestDisplayKeys drives the display of a run on a real API server.
func TestDisplayKeys(t *testing.T) {
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	s := watch(t, lab, ns, `
steps:
  - {name: first, wait: {resource: namespace/default, for: create}}
  - {name: gate, needs: [first], wait: {resource: configmap/gate, namespace: NS, for: create}}
  - {name: after, needs: [gate], wait: {resource: namespace/default, for: create}}
  - {name: never, wait: {resource: configmap/never, namespace: NS, for: create}}
`, "")
	s.shows("[1 steps]", "unchanged first", "running   gate", "waits for gate", "0/1  configmap/gate: not found", "following")

	s.press("2")
	s.shows("[2 timeline]", "critical: ", "after", "pending")
	s.press("3")
	s.shows("[3 webhooks]", "no webhook has held a request")
	s.press("Tab")
	s.shows("[4 log]", "attempt 1 begins")
	s.press("Tab", "/", "g", "a", "t", "e", "Enter")
	s.shows("[1 steps]", "filter: gate")
	s.until("the filter leaves gate alone", func(screen string) bool { return !strings.Contains(screen, "never") })
	s.press("Escape")
	s.shows("never")
	s.press("?")
	s.shows("this help", "to the top")
	s.press("G")
	s.shows("the rung that it waits for")
	s.press("q")
	s.until("the help is gone", func(screen string) bool { return strings.Contains(screen, "[1 steps]") })

	for _, size := range [][2]int{{40, 12}, {200, 60}, {100, 30}} {
		s.resize(size[0], size[1])
		s.until(fmt.Sprintf("it fills %v", size), func(screen string) bool {
			lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
			rule := lines[min(2, len(lines)-1)]
			if size[1] < 16 {
				rule = lines[min(1, len(lines)-1)]
			}
			return len(lines) == size[1] && utf8.RuneCountInString(rule) == size[0] && strings.Contains(rule, "[1 steps]")
		})
	}

	s.press("p")
	s.shows("display paused, 0 events behind")
	makeMap(t, lab, ns, "gate")
	s.until("the display falls behind", func(screen string) bool {
		return strings.Contains(screen, "display paused,") && !strings.Contains(screen, " 0 events behind")
	})
	require.NotContains(t, s.text(), "succeeded gate", "it stands still")
	s.press("p")
	s.shows("succeeded gate", "unchanged after")

	s.press("s")
	s.shows("skip the wait of never? what needs it goes on  [y/n]")
	s.press("n", "s", "y")
	screen := s.restored(0)
	require.Contains(t, screen, "plan display succeeded in ")
	require.Contains(t, screen, "1 succeeded, 2 unchanged, 1 skipped")
	require.Contains(t, screen, "skipped by hand")
}

// stuck waits for what never comes, and so does its last step.
const stuck = `
steps:
  - {name: never, wait: {resource: configmap/never, namespace: NS, for: create}}
finally:
  - {name: clean, wait: {resource: configmap/clean, namespace: NS, for: create}}
`

// TestDisplayInterrupt presses ^C once: the run stops, its finally steps run, and
// the summary stays on the terminal.
func TestDisplayInterrupt(t *testing.T) {
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	s := watch(t, lab, ns, stuck, "--stay")
	s.shows("running   never")
	s.press("C-c")
	s.shows("stopping", "cancelled never", "running   clean")
	makeMap(t, lab, ns, "clean")
	screen := s.restored(130)
	require.Contains(t, screen, "plan display cancelled in ")
	require.Contains(t, screen, "1 succeeded, 1 cancelled")
}

// TestDisplayAbort presses ^C twice: nothing is waited for.
func TestDisplayAbort(t *testing.T) {
	lab := labtest.ControlPlane(t)
	s := watch(t, lab, lab.Namespace(t), stuck, "")
	s.shows("running   never")
	s.press("C-c")
	s.shows("running   clean")
	s.press("C-c")
	require.Contains(t, s.restored(130), "plan display cancelled in ")
}

// TestDisplayTerminated stops the run by a signal: the display does not stay.
func TestDisplayTerminated(t *testing.T) {
	lab := labtest.ControlPlane(t)
	s := watch(t, lab, lab.Namespace(t), strings.Split(stuck, "finally")[0], "--stay")
	s.shows("running   never")
	require.NoError(t, syscall.Kill(s.pid(), syscall.SIGTERM))
	require.Contains(t, s.restored(143), "plan display cancelled in ")
}

// TestDisplayLeft closes the display: the run goes on in lines, and ^C is a signal
// again.
func TestDisplayLeft(t *testing.T) {
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	s := watch(t, lab, ns, stuck, "")
	s.shows("running   never")
	s.press("q")
	s.shows("the run goes on; ^C stops it", "never  running    still running")
	s.press("C-c")
	s.shows("nothing new starts", "never  cancelled  stopped at work", "clean  running    attempt 1/1")
	makeMap(t, lab, ns, "clean")
	s.restored(130)
}

// TestDisplayStay retries a step that failed, and looks at the end of the run, which
// its record shows again.
func TestDisplayStay(t *testing.T) {
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	s := watch(t, lab, ns, `
steps:
  - {name: late, timeout: 1s, wait: {resource: configmap/late, namespace: NS, for: create}}
  - {name: after, needs: [late], wait: {resource: namespace/default, for: create}}
`, "--stay")
	s.shows("paused", "failed    late", "timed out after 1s", "press r for another attempt; e ends the run", "blocked   after")
	makeMap(t, lab, ns, "late")
	s.press("r")
	screen := s.shows("unchanged late", "unchanged after", "2 unchanged", "q quit")
	s.press("2")
	chart := s.shows("[2 timeline]")
	s.press("q")
	require.Contains(t, s.restored(0), "plan display succeeded in ")

	again := newTerminal(t, 100, 30, fmt.Sprintf(guardedScript, "kplan replay --speed 0 "+filepath.Join(s.dir, "run.jsonl")))
	again.until("it shows the same", func(now string) bool { return now == screen })
	again.press("2")
	again.until("it shows the same", func(now string) bool { return now == chart })
	again.press("q")
	require.Contains(t, again.restored(0), "plan display succeeded in ")
}

const recordings = "internal/ui/testdata/events"

// TestReplayScreens compares what a terminal shows of recorded runs with goldens.
func TestReplayScreens(t *testing.T) {
	for _, run := range []string{"failure", "lab_race", "stages"} {
		for _, size := range [][2]int{{40, 12}, {80, 24}, {120, 40}} {
			t.Run(fmt.Sprintf("%s-%dx%d", run, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				record, err := filepath.Abs(filepath.Join(recordings, run+".jsonl"))
				require.NoError(t, err)
				golden := filepath.Join("testdata/display", fmt.Sprintf("%s-%dx%d.txt", run, size[0], size[1]))
				want := views(t, golden)
				s := newTerminal(t, size[0], size[1], fmt.Sprintf(guardedScript, "kplan replay --speed 0 "+record))
				for n, mark := range []string{"[1 steps]", "[2 time", "[3 ", "[4 log]"} {
					if n > 0 { // it begins with the first
						s.press(fmt.Sprint(n + 1))
					}
					s.shows(mark)
					want[n] = s.settled(want[n], func(screen string) string {
						if size[1] < 16 {
							return screen
						}
						_, rest, _ := strings.Cut(screen, "\n") // the first line has the version of this build
						return rest
					})
				}
				s.press("q")
				s.restored(0)
				if *update {
					var got strings.Builder
					for n, view := range want {
						fmt.Fprintf(&got, "== %d\n%s", n+1, view)
					}
					require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
					require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
				}
			})
		}
	}
}

// views are the four views in a golden; empty when goldens are to be written.
func views(t *testing.T, golden string) []string {
	t.Helper()
	if *update {
		return make([]string, 4)
	}
	b, err := os.ReadFile(golden)
	require.NoError(t, err)
	all := regexp.MustCompile(`(?m)^== \d\n`).Split(string(b), -1)
	require.Len(t, all, 5)
	return all[1:]
}

// TestTerminalOfTheDead kills kplan while it shows a run: another process gives the
// terminal back.
func TestTerminalOfTheDead(t *testing.T) {
	record, err := filepath.Abs(filepath.Join(recordings, "failure.jsonl"))
	require.NoError(t, err)
	const show = `sh -c 'echo $$ >pid; exec kplan replay --speed 0 %s'; code=$?
until [ -e told ]; do sleep 0.05; done; (exit $code)`
	for name, tc := range map[string]struct {
		signal syscall.Signal
		code   int
		shows  []string
	}{
		"crash": {syscall.SIGQUIT, 2, []string{"goroutine 1 ", "error: kplan got SIGQUIT: "}}, // Go's runtime ends it as in a crash
		"kill":  {syscall.SIGKILL, 137, []string{"error: kplan was killed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTerminal(t, 100, 30, fmt.Sprintf(guardedScript, fmt.Sprintf(show, record)))
			s.shows("[1 steps]")
			require.NoError(t, syscall.Kill(s.pid(), tc.signal))
			s.shows(tc.shows...)
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, "told"), nil, 0o600))
			require.Contains(t, s.restored(tc.code), "\nexit code ", "lines begin at the left again")
		})
	}
}

// TestTerminals shows a recorded run on terminals that can do less.
func TestTerminals(t *testing.T) {
	record, err := filepath.Abs(filepath.Join(recordings, "failure.jsonl"))
	require.NoError(t, err)
	show := func(t *testing.T, command string, env ...string) *terminal {
		t.Helper()
		return newTerminal(t, 80, 24, fmt.Sprintf(guardedScript, command+" "+record), env...)
	}
	t.Run("no colours", func(t *testing.T) {
		s := show(t, "kplan replay --speed 0", "NO_COLOR=1")
		s.shows("✘ failed", "[1 steps]")
		require.NotContains(t, s.tmux("capture-pane", "-p", "-e"), "\x1b[")
	})
	t.Run("ASCII", func(t *testing.T) {
		s := show(t, "kplan replay --speed 0", "LC_ALL=C")
		screen := s.shows("x failed", "[1 steps]")
		require.Equal(t, len(screen), utf8.RuneCountInString(screen))
	})
	for name, env := range map[string]string{"dumb": "TERM=dumb", "CI": "CI=true"} {
		t.Run(name, func(t *testing.T) {
			s := show(t, "kplan replay", env)
			screen := s.restored(0)
			require.Contains(t, screen, "chart        retrying   attempt 1/2 failed")
			require.NotContains(t, screen, "[1 steps]")
		})
	}
	t.Run("mouse", func(t *testing.T) {
		s := show(t, "kplan replay --speed 0")
		s.shows("unchanged web", "✘ failed    stale")
		s.press("-l", "\x1b[<65;5;5M") // the wheel turns towards the user
		s.until("the first step has gone up", func(screen string) bool { return !strings.Contains(screen, "unchanged web") })
		s.press("-l", "\x1b[<64;5;5M")
		s.shows("unchanged web")
		s.press("-l", "\x1b[<0;5;5M\x1b[<0;5;5m") // on the second step, which has the cursor
		s.until("it is closed", func(screen string) bool { return !strings.Contains(screen, "check the chart's address") })
		s.press("q")
		s.restored(0)
	})
	t.Run("not asked", func(t *testing.T) { // for its colours: see package noquery
		out := filepath.Join(t.TempDir(), "out")
		s := newTerminal(t, 80, 24, "read line\n"+fmt.Sprintf(guardedScript, "TERM=xterm kplan version"))
		s.tmux("pipe-pane", "cat >"+out)
		s.press("Enter")
		s.restored(0)
		s.until("the output is there", func(string) bool {
			b, err := os.ReadFile(out)
			return err == nil && strings.Contains(string(b), "exit code 0")
		})
		b, err := os.ReadFile(out)
		require.NoError(t, err)
		require.NotContains(t, string(b), "\x1b")
	})
}
