//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// terminal is a real one, of tmux, in which a shell runs kplan.
type terminal struct {
	t   testing.TB
	dir string // its HOME, and where it began
}

// patience is how long a terminal may take to show what a test waits for.
const patience = time.Minute

// newTerminal opens a terminal that runs a script of sh, in which kplan is this
// test binary. Its environment is env and what a terminal needs. It ends with the
// test, which is skipped where there is no tmux, and fails instead where CI is true.
func newTerminal(t testing.TB, width, height int, script string, env ...string) *terminal {
	t.Helper()
	if testing.Short() {
		t.Skip("needs tmux; left out by -short")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no terminal for tests: %v; make tmux installs it", err)
		}
		t.Skipf("no terminal for tests: %v; make tmux installs it", err)
	}
	s := &terminal{t: t, dir: t.TempDir()}
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "bin"), 0o700))
	require.NoError(t, os.Symlink(self, filepath.Join(s.dir, "bin", "kplan")))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "script"), []byte(script), 0o600))
	args := append([]string{
		"env", "-i", "TERM=screen", "LANG=C.UTF-8", "TZ=UTC", "HOME=" + s.dir,
		"PATH=" + filepath.Join(s.dir, "bin") + ":" + os.Getenv("PATH"),
	}, env...)
	s.tmux(append([]string{
		"-u", "-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "-c", s.dir,
	}, append(args, "sh", "script")...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows:\n%s", s.text())
		}
		_ = s.command("kill-server").Run()
	})
	return s
}

// command is one of tmux, whose server is this terminal's own.
func (s *terminal) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), "tmux", append([]string{"-S", filepath.Join(s.dir, "tmux")}, args...)...)
	cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH"), "TERM=screen"}
	return cmd
}

func (s *terminal) tmux(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	require.NoError(s.t, err, "tmux %v: %s", args, out)
	return string(out)
}

// press presses keys, by the names that tmux gives them.
func (s *terminal) press(keys ...string) {
	s.t.Helper()
	s.tmux(append([]string{"send-keys"}, keys...)...)
}

func (s *terminal) resize(width, height int) {
	s.t.Helper()
	s.tmux("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
}

// text is what the terminal shows, and what has scrolled out of it.
func (s *terminal) text() string {
	out, _ := s.command("capture-pane", "-p", "-S", "-").Output()
	return strings.TrimRight(string(out), "\n") + "\n"
}

// shows waits until the terminal shows all of some texts.
func (s *terminal) shows(texts ...string) string {
	s.t.Helper()
	return s.until(fmt.Sprintf("it shows %q", texts), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// until waits until what the terminal shows is as wanted.
func (s *terminal) until(what string, wanted func(screen string) bool) string {
	s.t.Helper()
	clock := time.NewTicker(50 * time.Millisecond) // tmux tells nobody that a screen has changed
	defer clock.Stop()
	late := time.After(patience)
	for {
		if screen := s.text(); wanted(screen) {
			return screen
		}
		select {
		case <-clock.C:
		case <-late:
			s.t.Fatalf("waited %s until %s", patience, what)
		}
	}
}

// settled compares a part of what the terminal shows with what is wanted, as soon as
// all of it is drawn. For "" it gives that part once it stands still.
func (s *terminal) settled(want string, part func(screen string) string) string {
	s.t.Helper()
	late := time.Now().Add(patience)
	for last := ""; ; time.Sleep(100 * time.Millisecond) {
		got := part(s.text())
		switch {
		case got == want, want == "" && got == last:
			return got
		case time.Now().After(late):
			require.Equal(s.t, want, got)
		}
		last = got
	}
}

// guardedScript is a script that runs a command between two looks at the terminal's
// settings, and waits then.
const guardedScript = `trap : INT # ^C is for the command alone
stty -a >before
%s
echo "exit code $?"
stty -a >after
echo over
exec sleep 1000
`

// sized are the settings that say how large the terminal is.
var sized = regexp.MustCompile(`rows \d+; columns \d+;`)

// restored waits until the command of guardedScript has ended with a code, and
// checks that the terminal is as it was before.
func (s *terminal) restored(code int) string {
	s.t.Helper()
	screen := s.shows("\nover\n")
	require.Contains(s.t, screen, fmt.Sprintf("exit code %d\n", code))
	before, err := os.ReadFile(filepath.Join(s.dir, "before"))
	require.NoError(s.t, err)
	after, err := os.ReadFile(filepath.Join(s.dir, "after"))
	require.NoError(s.t, err)
	require.Equal(s.t, sized.ReplaceAllString(string(before), ""), sized.ReplaceAllString(string(after), ""))
	require.Equal(s.t, "screen 0, mouse 0, cursor 1\n",
		s.tmux("display-message", "-p", "screen #{alternate_on}, mouse #{mouse_any_flag}, cursor #{cursor_flag}"))
	return screen
}
