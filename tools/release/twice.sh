#!/usr/bin/env bash
# Makes the release of HEAD twice, each time in a clone of its own, whose files are of
# another time, with another umask, in another time zone, and where another version of Go
# is chosen, and compares the checksums of all files, and the digest of the image.
# usage: twice.sh TARGETS
set -euo pipefail
targets=${1:?"usage: twice.sh TARGETS"}
root=$(git rev-parse --show-toplevel)
commit=$(git rev-parse HEAD) # once: HEAD may move meanwhile
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

zone=UTC go=$(go env GOTOOLCHAIN)
for dir in first second/with/a/longer/path; do
  git clone --quiet --shared -- "$root" "$work/$dir"
  git -C "$work/$dir" checkout --quiet "$commit"
  mkdir -p "$work/$dir/bin"
  cp -- "$root"/bin/{goreleaser,sbom,image} "$work/$dir/bin/"
  TZ=$zone GOTOOLCHAIN=$go make -C "$work/$dir" --no-print-directory snapshot "TARGETS=$targets" >&2
  zone=Asia/Tokyo go=go$(awk '$1 == "go" { print $2 }' "$work/$dir/tools/release/go.mod")
  umask 077
done
cd "$work"
diff -u first/dist/checksums.txt second/with/a/longer/path/dist/checksums.txt
diff -u first/dist/image.digest second/with/a/longer/path/dist/image.digest
cat first/dist/checksums.txt first/dist/image.digest
printf 'the same commit gave the same %d files and the same image twice\n' "$(wc -l <first/dist/checksums.txt)" >&2
