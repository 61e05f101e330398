#!/usr/bin/env bash
# Runs each fuzz target of the module for a time: tools/fuzz.sh [TIME], such as 60s.
# Go runs one target of one package at a time. What it finds is in testdata/fuzz of
# the target's package: commit it, it is a test from then on. Making inputs small is
# bounded: Go spends up to a minute on each new one, and tries none meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-60s} failed=()
while read -r folder; do
	while read -r target; do
		printf '\n==> %s in ./%s for %s\n' "$target" "$folder" "$time" >&2
		go test "./$folder" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x || failed+=("$folder:$target")
	done < <(go test -list '^Fuzz' "./$folder" | grep '^Fuzz')
done < <(git grep -l --untracked '^func Fuzz' -- '*_test.go' ':!lab' | xargs -n1 dirname | sort -u)
if ((${#failed[@]})); then
	printf 'found by fuzzing: %s\n' "${failed[@]}" >&2
	exit 1
fi
