package ui

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	terminal := Environment{Stdin: true, Stderr: true, Term: "xterm-256color"}
	with := func(change func(*Environment)) Environment {
		s := terminal
		change(&s)
		return s
	}
	for name, tt := range map[string]struct {
		in   Environment
		want Mode
	}{
		"a terminal":                {terminal, TTY},
		"a terminal without a name": {with(func(s *Environment) { s.Term = "" }), TTY}, // as on Windows
		"a dumb terminal":           {with(func(s *Environment) { s.Term = "dumb" }), Plain},
		"no keys":                   {with(func(s *Environment) { s.Stdin = false }), Plain},
		"a file or pipe":            {with(func(s *Environment) { s.Stderr = false }), Plain},
		"nothing":                   {Environment{}, Plain},
		"a terminal in CI":          {with(func(s *Environment) { s.CI = "true" }), Plain},
		"CI by another word":        {with(func(s *Environment) { s.CI = "woodpecker" }), Plain},
		"CI is off":                 {with(func(s *Environment) { s.CI = "false" }), TTY},
		"CI is 0":                   {with(func(s *Environment) { s.CI = "0" }), TTY},
		"CI without a terminal":     {Environment{CI: "1"}, Plain},
		"GitHub":                    {Environment{CI: "true", Actions: "true"}, GitHub},
		"GitHub with a terminal":    {with(func(s *Environment) { s.CI, s.Actions = "true", "true" }), GitHub},
		"GitHub's variable is off":  {Environment{CI: "true", Actions: "false"}, Plain},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.in.Choose(Auto)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			for _, m := range []Mode{Plain, JSON, GitHub, Quiet} { // what is asked for is done
				got, err := tt.in.Choose(m)
				require.NoError(t, err)
				require.Equal(t, m, got)
			}
		})
	}

	// error: nothing to draw on
	for _, s := range []Environment{{}, with(func(s *Environment) { s.Stdin = false }), with(func(s *Environment) { s.Term = "dumb" })} {
		_, err := s.Choose(TTY)
		require.ErrorIs(t, err, ErrNoTerminal)
	}
	got, err := with(func(s *Environment) { s.CI = "true" }).Choose(TTY)
	require.NoError(t, err, "who asks for it gets it, also in CI")
	require.Equal(t, TTY, got)
}

func TestParseMode(t *testing.T) {
	for _, m := range Modes {
		got, err := ParseMode(string(m))
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	_, err := ParseMode("loud")
	require.EqualError(t, err, `there is no progress mode "loud", only auto, tty, plain, json, github, quiet`)
}
