package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clients reach the proxy of this machine, and whatever the user excepts, without the
// network's: whichever name they read.
func TestHoldUnproxied(t *testing.T) {
	const own = "127.0.0.1,::1,localhost"
	for _, test := range []struct {
		name string
		env  []string
		want string // of both names
	}{
		{"no proxy", []string{"NO_PROXY=corp"}, ""},
		{"none excepted", []string{"HTTPS_PROXY=http://p"}, own},
		{"lower case", []string{"https_proxy=http://p", "no_proxy=corp,10.0.0.0/8"}, "corp,10.0.0.0/8," + own},
		{"upper case", []string{"HTTPS_PROXY=http://p", "NO_PROXY=corp,"}, "corp," + own},
		{"both", []string{"HTTPS_PROXY=http://p", "NO_PROXY=corp", "no_proxy=other"}, "corp," + own},
		{"plain HTTP", []string{"http_proxy=http://p"}, own},
		{"all", []string{"ALL_PROXY=http://p"}, own},
		{"all but all", []string{"all_proxy=http://p", "no_proxy=*"}, "*"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"} {
				t.Setenv(name, "")
				t.Setenv(strings.ToLower(name), "")
			}
			for _, set := range test.env {
				name, value, _ := strings.Cut(set, "=")
				t.Setenv(name, value)
			}
			var want []string
			if test.want != "" {
				want = []string{"NO_PROXY=" + test.want, "no_proxy=" + test.want}
			}
			require.Equal(t, want, unproxied())
		})
	}
}
