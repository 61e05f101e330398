package ui

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSignature(t *testing.T) {
	same := [][]string{
		{
			"2026-11-22T09:51:02.123Z\tERROR\tsetup\tunable to start",
			"2026-11-22T09:51:04.9Z\tERROR\tsetup\tunable to start",
		},
		{"I1122 09:51:02.123456       1 leaderelection.go:250] attempting", "I1122 09:52:59.000001       1 leaderelection.go:250] attempting"},
		{`{"level":"info","ts":1763805062.4331,"msg":"probe"}`, `{"level":"info","ts":1763805067.1,"msg":"probe"}`},
		{`{"ts":1.763805062e+09}`, `{"ts":1.763805067e+09}`},
		{"2026/11/22 09:51:02 http: TLS handshake error from 10.244.0.1:41234: EOF", "2026/11/22 09:51:12 http: TLS handshake error from 10.244.0.1:52345: EOF"},
		{"took 1m30.5s, then 900ms", "took 2s, then 12µs"},
		{"request 0d3f1c2e-1111-4000-8000-000000000001 refused", "request 99999999-0000-4aaa-8bbb-0123456789ab refused"},
		{"goroutine at 0xc000123456", "goroutine at 0xc0001ff000"},
		{"pod web-7d9f8c6b5d-x2x4z restarted 3 times", "pod web-6c5b7d9f8-abcde restarted 14 times"},
		{"commit 8138a6141c5afb4a", "commit ec60e68f45634d1d"},
	}
	for _, lines := range same {
		require.Equal(t, signature(lines[0]), signature(lines[1]))
	}
	for _, lines := range [][]string{
		{"answered with 404", "answered with 500"},
		{"ended with 1", "ended with 2"},
		{"main.go:12: no", "main.go:13: no"},
		{"1 of 3 replicas are available", "2 of 3 replicas are available"},
		{"the facade failed", "the decade failed"},
	} {
		require.NotEqual(t, signature(lines[0]), signature(lines[1]))
	}
	require.Equal(t, "nothing changes here: deadbeefly", signature("nothing changes here: deadbeefly"))
}
