#!/usr/bin/env bash
# Shows what a run would change as a comment on a pull request. There is one comment for
# each plan: it is changed by later runs, not repeated. Without NEWS none is begun.
#
# usage: comment.sh PLAN FILE true|false
#
# KPLAN_TOKEN        token that may write to pull requests
# GITHUB_API_URL     https://api.github.com
# GITHUB_REPOSITORY  owner/name
# GITHUB_EVENT_PATH  the event that started the workflow
set -euo pipefail
plan=${1:?} text=${2:?} news=${3:?}
api=${GITHUB_API_URL:-https://api.github.com}/repos/${GITHUB_REPOSITORY:?}

warn() { printf '::warning title=kplan::%s\n' "$1"; }

number=$(jq -r '.pull_request.number // empty' "${GITHUB_EVENT_PATH:?}")
if [[ -z $number ]]; then
  printf 'no comment: this is no pull request\n'
  exit 0
fi

# call METHOD URL [FILE]: the token is not among the arguments, which others can see.
call() {
  curl --fail --silent --show-error --request "$1" ${3:+--data "@$3"} \
    --header 'Accept: application/vnd.github+json' --header 'X-GitHub-Api-Version: 2022-11-28' \
    --config <(printf 'header = "Authorization: Bearer %s"\n' "${KPLAN_TOKEN:?}") -- "$2"
}

# mine MARK: the comment that begins with the mark and is by this token's owner. That is a
# bot unless the token is a person's. Others may write the mark as well.
mine() {
  local mark=$1 login page=1 found count
  login=$(call GET "${GITHUB_API_URL:-https://api.github.com}/user" 2>/dev/null | jq -r .login) || login=
  while :; do
    call GET "$api/issues/$number/comments?per_page=100&page=$page" >"$work/page" || return 1
    found=$(jq -r --arg mark "$mark" --arg login "$login" \
      'first(.[] | select(.body | startswith($mark)) | select(if $login == "" then .user.type == "Bot" else .user.login == $login end) | .id) // empty' "$work/page")
    count=$(jq length "$work/page")
    if [[ -n $found ]] || ((count < 100)); then
      printf '%s\n' "$found"
      return
    fi
    page=$((page + 1))
  done
}

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
mark="<!-- kplan diff of ${plan//[^A-Za-z0-9._\/-]/_} -->"
{ printf '%s\n' "$mark" && cat -- "$text"; } >"$work/body"
jq -n --rawfile body "$work/body" '{body: $body}' >"$work/comment"

if ! id=$(mine "$mark"); then
  warn 'comments of the pull request cannot be read: the job needs the permission pull-requests: write'
elif [[ -n $id ]]; then
  call PATCH "$api/issues/comments/$id" "$work/comment" >/dev/null || warn "comment $id cannot be changed: the job needs the permission pull-requests: write"
elif [[ $news == true ]]; then
  call POST "$api/issues/$number/comments" "$work/comment" >/dev/null ||
    warn 'the comment cannot be written: the job needs the permission pull-requests: write; workflows of forks do not get it'
fi
