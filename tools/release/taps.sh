#!/usr/bin/env bash
# Writes the cask for Homebrew and the manifest for krew of a release into their
# repositories. Until the release is published, what they name cannot be fetched.
#
# usage: taps.sh DIST TAG
#
# TAP_TOKEN       token that may write to both repositories; without it nothing is done
# GITHUB_API_URL  https://api.github.com
set -euo pipefail
dist=${1:?"usage: taps.sh DIST TAG"} tag=${2:?"usage: taps.sh DIST TAG"}
api=${GITHUB_API_URL:-https://api.github.com}/repos/kplan-dev

if [[ -z ${TAP_TOKEN:-} || $tag == *-* ]]; then
  printf 'Homebrew and krew stay as they are: there is no TAP_TOKEN, or %s is no final version\n' "$tag"
  exit 0
fi

# call METHOD URL [OPTION…]: the token is not among the arguments, which others can see.
call() {
  curl --fail-with-body --silent --show-error --request "$1" --header 'Accept: application/vnd.github+json' \
    --config <(printf 'header = "Authorization: Bearer %s"\n' "$TAP_TOKEN") "${@:3}" -- "$2"
}

# put REPOSITORY PATH FILE: makes a file of a repository, or changes it.
put() {
  local known
  known=$(call GET "$api/$1/contents" | jq -r --arg folder "${2%/*}" 'any(.[]; .name == $folder)')
  if [[ $known == true ]]; then
    known=$(call GET "$api/$1/contents/${2%/*}" | jq -r --arg name "${2##*/}" '.[] | select(.name == $name) | .sha')
  else
    known=
  fi
  jq -n --arg sha "$known" --arg message "kplan $tag" --rawfile content <(base64 -w 0 "$3") \
    '{message: $message, content: $content} + if $sha == "" then {} else {sha: $sha} end' |
    call PUT "$api/$1/contents/$2" --data @- >/dev/null
  printf '%s: wrote %s\n' "$1" "$2"
}

put homebrew-tap Casks/kplan.rb "$dist/homebrew/Casks/kplan.rb"
put krew-index plugins/kplan.yaml "$dist/krew/kplan.yaml"
