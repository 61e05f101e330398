#!/usr/bin/env bash
# Looks for known vulnerabilities in the code that kplan and the release's tools call, by
# govulncheck. Without its database (vuln.go.dev, or the one of VULNDB, such as
# file:///srv/vulndb) nothing was looked for, and that is said.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin
(cd tools/vuln && CGO_ENABLED=0 go build -o ../../bin/govulncheck golang.org/x/vuln/cmd/govulncheck)
out=$(mktemp)
trap 'rm -f "$out"' EXIT
code=0
bin/govulncheck ${VULNDB:+-db "$VULNDB"} ./... >"$out" 2>&1 || code=$?
cat "$out"
if grep -q '^govulncheck: fetching vulnerabilities:' "$out"; then
	echo 'error: the database of vulnerabilities cannot be reached: nothing was looked for' >&2
	echo 'hint: VULNDB=file:///FOLDER names a copy of it, see https://go.dev/security/vuln/database' >&2
	exit 2
fi
exit "$code"
