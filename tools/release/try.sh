#!/usr/bin/env bash
# Tries what was released on a bare Debian: the archive, the package and the image each run
# a plan on a cluster, installed by the commands of the documentation to the letter. An
# archive or a package that was changed on its way must not be installed.
#
# usage: try.sh DIST KUBECONFIG [PLAN]    as root; without PLAN, the first plan of the tutorial
#
# The tutorial's plan is taken out of its page, and its chart of External Secrets is the
# lab's stand-in: the cluster needs no internet, but the lab's image.
# It needs debootstrap, jq, a mirror of Debian's packages, and bin/host. A server on the
# loopback interface stands for GitHub (see host), so the trials share the machine's network;
# all else of theirs is their own.
#
# TRY_ROOT    folder for the Debian, kept for the next time (/var/tmp/kplan-try)
# TRY_MIRROR  where its packages are (http://deb.debian.org/debian)
set -euo pipefail
repo=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
usage='usage: try.sh DIST KUBECONFIG [PLAN]'
dist=$(realpath -- "${1:?$usage}") login=$(realpath -- "${2:?$usage}") plan=${3:-first-plan/plan.yaml}
try=${TRY_ROOT:-/var/tmp/kplan-try} mirror=${TRY_MIRROR:-http://deb.debian.org/debian}
arch=$(dpkg --print-architecture)
# What the documentation's commands, and looking at their result, need besides.
packages=ca-certificates,curl,sudo,man-db,bash-completion

say() { printf '\n==> %s\n' "$1" >&2; }
fail() { printf 'try: %s\n' "$1" >&2; exit 1; }

[[ $(id -u) == 0 ]] || fail 'changing the root folder takes root'
for tool in debootstrap jq unshare "$repo/bin/host"; do command -v "$tool" >/dev/null || fail "there is no $tool"; done

if [[ ! -e $try/debian.complete ]]; then
  say "making a bare Debian in $try/debian"
  rm -rf --one-file-system -- "$try/debian"
  mkdir -p -- "$try"
  debootstrap --variant=minbase "--include=$packages" bookworm "$try/debian" "$mirror" >"$try/debootstrap.log"
  touch -- "$try/debian.complete"
fi

work=$(mktemp -d "$try/work.XXXXXX")
trap 'rm -rf --one-file-system -- "$work"' EXIT

# fresh NAME: root is a Debian of its own, with a user who has the plan and the login.
fresh() {
  root=$work/$1 home=/home/user
  cp -a --reflink=auto -- "$try/debian" "$root"
  chroot "$root" useradd --create-home --shell /bin/bash user
  printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$root/etc/hosts" # sudo asks for its address
  printf 'user ALL=(ALL) NOPASSWD: ALL\n' >"$root/etc/sudoers.d/user"
  give "$root$home" 1000
}

# give FOLDER UID: what the plan needs, and the login, to a user.
give() {
  git -C "$repo" archive HEAD lab/race lab/charts examples | tar -x -C "$1"
  tutorial "$1"
  mkdir -- "$1/.kube"
  install -m 0600 -- "$login" "$1/.kube/config"
  chown -R -- "$2:$2" "$1"
}

# fence LANGUAGE TEXT: the block of the tutorial in a language that has a text.
fence() {
  awk -v begin="\`\`\`$1" -v text="$2" '
    /^```$/ && inside { if (index(block, text)) printf "%s", block; inside = 0; next }
    inside { block = block $0 "\n" }
    index($0, begin) == 1 { inside = 1; block = "" }' "$repo/docs/tutorial/first-plan.md"
}

# tutorial FOLDER: the chart and the plan that the tutorial lets its reader write.
tutorial() {
  (cd "$1" && bash -euc "$(fence sh 'cat > shop/Chart.yaml')")
  fence yaml 'kind: Plan' |
    sed -e '/repo: https/d' -e 's|chart: external-secrets$|chart: ../lab/charts/external-secrets|' >"$1/first-plan/plan.yaml"
  grep -q 'chart: ../lab' "$1/first-plan/plan.yaml" || fail 'the plan of the tutorial was not found'
}

# inside USER COMMANDS: in the root, at home. What they start ends with them.
inside() {
  unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" -- \
    chroot --userspec="$1:$1" --groups= -- "$root" \
    env -i HOME=$home PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    bash -euo pipefail -c "cd && $2"
}

# documented HEADING: the first commands below a heading of the page on installing, or of
# the README without one, for this machine's architecture.
documented() {
  local page=$repo/README.md
  [[ -z $1 ]] || page=$repo/docs/how-to/install.md
  awk -v heading="$1" 'heading == "" || $0 == heading { below = 1 } inside && /^```$/ { exit } inside; below && /^```sh$/ { inside = 1 }' "$page" |
    sed "s/_amd64\./_$arch./g"
}

# from FOLDER COMMAND…: its files are the newest release while the command runs.
from() {
  local served=$1 code=0
  shift
  coproc HOST { exec "$repo/bin/host" --as "$home" "$served" "$root$home"; }
  local pid=$HOST_PID
  read -r _ <&"${HOST[0]}" # it listens
  "$@" || code=$?
  kill "$pid"
  wait "$pid" || true
  return "$code"
}

# refused FILE HEADING: the documented commands end with an error for a file that has one
# byte more than the one whose checksum was made.
refused() {
  rm -rf -- "$work/changed"
  mkdir -- "$work/changed"
  cp -- "$dist/checksums.txt" "$dist/$1" "$work/changed/"
  printf x >>"$work/changed/$1"
  if from "$work/changed" inside user "$(documented "$2")"; then fail "$1 was changed, and installed all the same"; fi
  printf 'refused: %s with one byte more\n' "$1" >&2
}

# run_and_down KPLAN: commands that run the plan, and take it down.
run_and_down() { printf '%s version; %s run %s --progress plain; %s down %s --yes --delete-crds --progress plain' "$1" "$1" "$plan" "$1" "$plan"; }

# timed NAME FILE COMMAND…: notes the size of what was installed, and how long the command
# takes.
figures=()
timed() {
  local name=$1 size begin=$EPOCHREALTIME
  size=$(du --bytes --summarize -- "$2" | cut -f 1)
  shift 2
  "$@"
  figures+=("$(awk -v name="$name" -v size="$size" -v s="$(printf '%s %s' "$begin" "$EPOCHREALTIME")" \
    'BEGIN { split(s, t, " "); printf "%-8s %7.1f MB %6.1f s", name, size / 1e6, t[2] - t[1] }')")
}

archive() {
  say "the archive, as $1 says"
  refused "kplan_linux_$arch.tar.gz" "$2"
  inside user 'test ! -e kplan'
  from "$dist" inside user "$(documented "$2")"
  inside user "$(run_and_down ./kplan)"
}
fresh archive
timed archive "$dist/kplan_linux_$arch.tar.gz" archive 'the README' ''

# files: all of the root but what dpkg, apt, man and people write themselves.
files() { (cd "$root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/log -o -path ./var/cache -o -path ./home -o -path ./tmp -o -path ./proc \) -prune -o -print | sort); }

package() {
  say 'the package for Debian'
  refused "kplan_linux_$arch.deb" '## Debian, Ubuntu'
  files >"$work/before"
  from "$dist" inside user "$(documented '## Debian, Ubuntu')"
  inside user 'man kplan | grep -E "Run +install +plans"; man kplan-run | grep -- --progress' >/dev/null
  inside user '. /usr/share/bash-completion/bash_completion; { _completion_loader kplan || test $? = 124; }; complete -p kplan; kplan __complete r | grep ^run'
  inside user 'kubectl-kplan run --help | grep "^  kubectl kplan run plan.yaml$"'
  inside user "$(run_and_down kplan)"
  inside user 'sudo dpkg --verify kplan && sudo apt-get remove -qy kplan'
  files >"$work/after"
  diff "$work/before" "$work/after" || fail 'apt remove left files behind'
}
fresh package
timed deb "$dist/kplan_linux_$arch.deb" package

# image unpacks the layers of the image, and runs its program as its user, with a root that
# cannot be written to but for /tmp, the home and the plan's folder.
image() {
  say 'the image'
  local blobs=$dist/image/blobs manifest config dir layer env=()
  root=$work/image home=/home/kplan
  blob() { printf '%s/%s' "$blobs" "${1/://}"; }
  manifest=$(jq -r --arg arch "$arch" '.manifests[] | select(.platform.architecture == $arch).digest' "$(blob "$(jq -r '.manifests[0].digest' "$dist/image/index.json")")")
  config=$(blob "$(jq -r .config.digest "$(blob "$manifest")")")
  dir=$(jq -r .config.WorkingDir "$config") # chroot leaves it: the plan is named by its path
  mkdir -- "$root"
  for layer in $(jq -r '.layers[].digest' "$(blob "$manifest")"); do tar -xzpf "$(blob "$layer")" -C "$root"; done
  mapfile -t env < <(jq -r '.config.Env[]' "$config")
  give "$root$dir" 65532
  mv -- "$root$dir/.kube" "$root$home/"
  for command in version "run $dir/$plan --progress plain" "down $dir/$plan --yes --delete-crds --progress plain"; do
    # shellcheck disable=SC2016,SC2086 # the inner shell expands; command is words
    env -i "${env[@]}" "$(command -v unshare)" --mount --pid --fork --kill-child -- bash -euc '
      chroot=$1 root=$2 user=$3; shift 3
      mount --bind "$root" "$root"
      mount -o remount,bind,ro "$root"
      for w in "$root/home/kplan" "$root/work"; do
        mount --bind "$w" "$w"
        mount -o remount,bind,rw "$w"
      done
      mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
      if touch "$root/usr/bin/kplan" 2>/dev/null; then exit 1; fi
      exec "$chroot" --userspec="$user" --groups= -- "$root" "$@"' \
      image "$(command -v chroot)" "$root" "$(jq -r .config.User "$config")" "$(jq -r '.config.Entrypoint[]' "$config")" $command
  done
}
timed image "$dist/image" image

say 'each of them ran and took down the plan; size of what is fetched, and the time with the trial of a changed one:'
printf '%s\n' "${figures[@]}"
