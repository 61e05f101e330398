package ui

import "regexp"

// changing is what differs between two lines of a log that say the same: times,
// durations, ids, addresses and how often something happened. What tells causes apart
// stays: numbers of up to three digits, such as HTTP statuses and exit codes.
var changing = regexp.MustCompile(`(?i)` +
	// 2026-01-01T12:00:00.123Z, 2026/01/01 12:00:00, I0101 12:00:00.123456, 12:00:00.1
	`\b(?:\d{4}[-/]\d\d[-/]\d\d[T ]|[IWEF]\d{4} +)?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\b` +
	// 0d3f1c2e-0000-4000-8000-000000000001
	`|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b` +
	// the end of a pod's name: -7d9f8c6b5d-x2x4z
	`|-[0-9a-f]{8,10}-[0-9a-z]{5}\b` +
	// 10.96.0.1:443, 127.0.0.1
	`|\b\d+\.\d+\.\d+\.\d+(?::\d+)?\b` +
	// 1.7e+09, 12.5
	`|\b\d+\.\d+(?:e[+-]?\d+)?(?:ns|us|µs|ms|s|m|h)?\b` +
	// 1m30s, 900ms
	`|\b(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+\b` +
	// restarted 3 times
	`|\b\d+ times?\b` +
	// 0x1f, hashes and long numbers
	`|\b0x[0-9a-f]+\b|\b[0-9a-f]*\d[0-9a-f]{6,}\b|\b\d{4,}\b`)

// signature is what a line of a log has in common with others that say the same.
func signature(line string) string { return changing.ReplaceAllString(line, "#") }
