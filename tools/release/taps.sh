#!/usr/bin/env bash
# Tells Homebrew and krew of a release: puts its cask and its manifest, which are in a
# folder such as dist, into the repositories that they read. The files that both name
# must be published before.
#
# usage: taps.sh DIST TAP INDEX    TAP and INDEX are the repositories, as git names them
#
# TAP_TOKEN  token that may write to both; without it nothing is done
set -euo pipefail
usage='usage: taps.sh DIST TAP INDEX'
dist=${1:?$usage} tap=${2:?$usage} index=${3:?$usage}
if [[ -z ${TAP_TOKEN:-} ]]; then
  printf 'there is no TAP_TOKEN: Homebrew and krew are not told\n'
  exit 0
fi
version=$(awk -F '"' '$1 ~ /^ *version $/ { print $2; exit }' "$dist/homebrew/Casks/kplan.rb")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
# The token is in no argument and in no file. An empty helper takes away those of the machine.
# shellcheck disable=SC2016 # git's shell expands it
export TAP_TOKEN GIT_TERMINAL_PROMPT=0 GIT_CONFIG_COUNT=4 \
  GIT_CONFIG_KEY_0=credential.helper GIT_CONFIG_VALUE_0='' \
  GIT_CONFIG_KEY_1=credential.helper GIT_CONFIG_VALUE_1='!printf "username=kplan\npassword=%s\n" "$TAP_TOKEN"; :' \
  GIT_CONFIG_KEY_2=user.name GIT_CONFIG_VALUE_2=kplan \
  GIT_CONFIG_KEY_3=user.email GIT_CONFIG_VALUE_3=kplan-dev@users.noreply.github.com

# put REPOSITORY FILE PATH: a file of the release is at the path in the repository.
put() {
  local clone
  clone=$(mktemp -d "$work/XXXXXX")
  git clone --quiet --depth 1 -- "$1" "$clone"
  mkdir -p -- "$(dirname -- "$clone/$3")"
  cp -- "$2" "$clone/$3"
  git -C "$clone" add -- "$3"
  if git -C "$clone" diff --cached --quiet; then return; fi
  git -C "$clone" commit --quiet --message "kplan $version"
  git -C "$clone" push --quiet origin HEAD
}
put "$tap" "$dist/homebrew/Casks/kplan.rb" Casks/kplan.rb
put "$index" "$dist/krew/kplan.yaml" plugins/kplan.yaml
