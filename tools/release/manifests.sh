#!/usr/bin/env bash
# Checks that the manifests of krew and Homebrew in a folder such as dist name the archives
# of the release, all that are meant for them, and each with its checksum.
# usage: manifests.sh DIST
set -euo pipefail
cd "${1:?"usage: manifests.sh DIST"}"
sha256sum --check --quiet checksums.txt

# archives MANIFEST: CHECKSUM  FILE, as checksums.txt has it, of each archive it names.
archives() {
  awk -F '"' '
    /^ *(- )?(uri: |url ")/ { file = NF > 1 ? $2 : $0; sub(/.*\//, "", file) }
    /^ *sha256/ { sum = NF > 1 ? $2 : $0; sub(/.* /, "", sum) }
    file && sum { print sum "  " file; file = sum = "" }' "$1" | sort
}
diff -u <(grep -E '\.(tar\.gz|zip)$' checksums.txt | sort) <(archives krew/kplan.yaml)
diff -u <(grep -E '_(linux|darwin)_.*\.tar\.gz$' checksums.txt | sort) <(archives homebrew/Casks/kplan.rb)
