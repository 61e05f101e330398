#!/usr/bin/env bash
# Runs one command of kplan on a plan, for action.yml.
#
# KPLAN_COMMAND  run, diff, validate or lint
# KPLAN_PLAN     the plan
# KPLAN_ARGS     more arguments: words, or one a line
#
# What a diff shows is kept in a file for comment.sh, which the outputs text and news are
# the arguments of. That is a step of its own: kplan itself does not get the token.
#
# Annotations and the summary of a run are kplan's own: it knows GITHUB_ACTIONS.
set -euo pipefail

# A line of several is an argument, so that one may have spaces; the one line is words.
args=()
if [[ ${KPLAN_ARGS:-} == *$'\n'* ]]; then
  while IFS= read -r line; do
    if [[ -n $line ]]; then args+=("$line"); fi
  done <<<"$KPLAN_ARGS"
elif [[ -n ${KPLAN_ARGS:-} ]]; then
  read -r -a args <<<"$KPLAN_ARGS"
fi
command=${KPLAN_COMMAND:?}
plan=${KPLAN_PLAN:?}

# diff writes what would change to the job's summary, and keeps it for the comment.
diff() {
  local text code=0 changes=false news=true
  text=$(mktemp "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/kplan-diff.XXXXXX")
  kplan diff "$plan" --output markdown --detailed-exitcode ${args[@]+"${args[@]}"} >"$text" || code=$?
  case $code in
  0) news=false ;;
  3) changes=true code=0 ;;
  esac
  cat -- "$text"
  if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then cat -- "$text" >>"$GITHUB_STEP_SUMMARY"; fi
  if [[ -z ${GITHUB_OUTPUT:-} ]]; then
    rm -f -- "$text"
    return "$code"
  fi
  printf 'changes=%s\n' "$changes" >>"$GITHUB_OUTPUT"
  if [[ -s $text ]]; then printf 'text=%s\nnews=%s\n' "$text" "$news" >>"$GITHUB_OUTPUT"; fi
  return "$code"
}

case $command in
run) kplan run "$plan" ${args[@]+"${args[@]}"} ;;
diff) diff ;;
validate | lint) kplan "$command" "$plan" --output github ${args[@]+"${args[@]}"} ;;
*)
  printf '::error title=kplan::there is no command "%s", only run, diff, validate and lint\n' "$command" >&2
  exit 2
  ;;
esac
