#!/usr/bin/env bash
# Installs a released kplan whose checksum is right, for action.yml and other CI systems.
#
# KPLAN_VERSION       version, such as 1.2.3; else
# KPLAN_VERSION_FILE  file that names it, plain or as .tool-versions; else
# KPLAN_ACTION_REF   the tag of the action, when it is of a release; else the newest
# KPLAN_RELEASES      where releases are, https://github.com/kplan-dev/kplan/releases
# RUNNER_TOOL_CACHE   folder to install to, below kplan/VERSION/ARCH; else ~/.cache
#
# The folder of the binary goes to stdout, and to GITHUB_PATH where that is set. Where
# cosign is on the PATH, the checksums' signature is verified too.
set -euo pipefail

releases=${KPLAN_RELEASES:-https://github.com/kplan-dev/kplan/releases}

fail() {
  if [[ ${GITHUB_ACTIONS:-} == true ]]; then printf '::error title=kplan::%s\n' "$1" >&2; else printf 'error: %s\n' "$1" >&2; fi
  exit 1
}

# fetch URL FILE [OPTION…]: https alone, unless the releases are elsewhere by http.
fetch() {
  local url=$1 file=$2 proto='=https'
  shift 2
  if [[ $releases == http://* ]]; then proto='=http,https'; fi
  curl --fail --silent --show-error --location --proto "$proto" --proto-redir "$proto" \
    --retry 3 --retry-connrefused --max-time 300 --output "$file" "$@" -- "$url"
}

# version_in FILE: the version that a file names.
version_in() {
  [[ -f $1 ]] || fail "there is no version-file $1"
  if [[ $(basename -- "$1") == .tool-versions ]]; then
    awk '$1 == "kplan" { print $2; exit }' "$1"
  else
    awk '!/^[[:space:]]*(#|$)/ { print $1; exit }' "$1"
  fi
}

# newest: the version that /latest redirects to.
newest() {
  local url
  url=$(fetch "$releases/latest" /dev/null --write-out '%{url_effective}') || fail "the newest version cannot be found at $releases/latest"
  printf '%s\n' "${url##*/}"
}

# sha256 FILE: the SHA-256 of a file.
sha256() {
  if command -v sha256sum >/dev/null; then sha256sum <"$1"; else shasum -a 256 <"$1"; fi | cut -d ' ' -f 1
}

version=${KPLAN_VERSION:-}
if [[ -z $version && -n ${KPLAN_VERSION_FILE:-} ]]; then
  version=$(version_in "$KPLAN_VERSION_FILE")
  [[ -n $version ]] || fail "$KPLAN_VERSION_FILE names no version of kplan"
fi
# Who pins the action to a release, uses: kplan-dev/kplan@v1.2.3, gets that release.
if [[ -z $version && ${KPLAN_ACTION_REF:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then version=$KPLAN_ACTION_REF; fi
if [[ -z $version || $version == latest ]]; then version=$(newest); fi
version=${version#v}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "\"$version\" is not a version such as 1.2.3"

case ${RUNNER_OS:-$(uname -s)} in
Linux) os=linux ;;
macOS | Darwin) os=darwin ;;
Windows | MINGW* | MSYS*) os=windows ;;
*) fail "there is no kplan for the system ${RUNNER_OS:-$(uname -s)}" ;;
esac
case ${RUNNER_ARCH:-$(uname -m)} in
X64 | x86_64 | amd64) arch=amd64 ;;
ARM64 | aarch64 | arm64) arch=arm64 ;;
*) fail "there is no kplan for the architecture ${RUNNER_ARCH:-$(uname -m)}" ;;
esac
binary=kplan archive=kplan_${os}_$arch.tar.gz
if [[ $os == windows ]]; then binary=kplan.exe archive=kplan_${os}_$arch.zip; fi

# As the runner's tool cache has it: what is not .complete was left half way.
dir=${RUNNER_TOOL_CACHE:-$HOME/.cache}/kplan/$version/$arch
if [[ ! -e $dir.complete ]]; then
  work=$(mktemp -d)
  trap 'rm -rf -- "$work"' EXIT
  for file in checksums.txt "$archive"; do
    fetch "$releases/download/v$version/$file" "$work/$file" || fail "kplan $version cannot be fetched: no $file at $releases/download/v$version"
  done
  if command -v cosign >/dev/null; then
    fetch "$releases/download/v$version/checksums.txt.sigstore.json" "$work/bundle" || fail "the checksums of kplan $version have no signature"
    cosign verify-blob --bundle "$work/bundle" \
      --certificate-identity "https://github.com/kplan-dev/kplan/.github/workflows/release.yml@refs/tags/v$version" \
      --certificate-oidc-issuer https://token.actions.githubusercontent.com \
      "$work/checksums.txt" >&2 || fail "the signature of the checksums of kplan $version is wrong; nothing was installed"
  fi
  want=$(awk -v file="$archive" '$2 == file { print $1 }' "$work/checksums.txt")
  got=$(sha256 "$work/$archive")
  [[ -n $want ]] || fail "checksums.txt of kplan $version does not have $archive; nothing was installed"
  [[ $got == "$want" ]] || fail "$archive of kplan $version has the SHA-256 $got instead of $want; nothing was installed"
  if [[ $os == windows ]]; then
    unzip -q "$work/$archive" "$binary" -d "$work"
  else
    tar -xzf "$work/$archive" -C "$work" "$binary"
  fi
  mkdir -p -- "$dir"
  install -m 0755 -- "$work/$binary" "$dir/$binary"
  touch -- "$dir.complete"
fi

"$dir/$binary" version >&2
printf '%s\n' "$dir"
if [[ -n ${GITHUB_PATH:-} ]]; then printf '%s\n' "$dir" >>"$GITHUB_PATH"; fi
if [[ -n ${GITHUB_OUTPUT:-} ]]; then printf 'version=%s\n' "$version" >>"$GITHUB_OUTPUT"; fi
