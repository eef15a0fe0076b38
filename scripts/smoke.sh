#!/usr/bin/env bash
# Does what a stranger does who follows the README: clones HEAD, builds, copies a
# provider from the catalogue and proves it, starts `onceward dev` with it, and
# copies the lines that dev prints. It fails when a step does not work as promised,
# and leaves no process and no file behind.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
lines_wanted=7     # lines to paste that `onceward dev` promises: 3 for grpcurl, 4 for Stripe
start_seconds=60   # for a first start, which makes a database
call_seconds=30    # for each call
prove_seconds=120  # for the proof of a provider
stop_seconds=30    # for a clean stop

tmp=$(mktemp -d)
# A Postgres that root starts runs as another user, who must get to its data.
chmod 755 "$tmp"
log=$tmp/dev.log
pid=

cleanup() {
  local status=$?
  trap - EXIT INT TERM
  if [ -n "$pid" ]; then
    # It leads its own process group: nothing in it survives this. Its Postgres
    # may have a group of its own, and ends when its parent does.
    kill -TERM -- "-$pid" 2>/dev/null || true
    for _ in $(seq 100); do
      [ -n "$(left_over)" ] || break
      sleep 0.1
    done
    kill -KILL -- "-$pid" 2>/dev/null || true
  fi
  if [ "$status" -ne 0 ] && [ -s "$log" ]; then
    echo '--- what onceward dev said:' >&2
    tail -n 80 "$log" >&2
  fi
  # The module cache is read-only; the clone and the data folder are not.
  rm -rf "$tmp"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The commands of the README's section about declared providers, one a line.
declared() { sed -n '/^## Any provider, without code/,/^## Add/p' README.md | grep '^\./bin/onceward '; }

say() { printf 'smoke %4ds  %s\n' "$SECONDS" "$*"; }
die() { printf 'smoke: %s\n' "$*" >&2; exit 1; }
# Processes in the group of onceward dev, or with its data folder as an argument.
left_over() {
  pgrep -g "$pid" || true
  pgrep -f -- "$tmp/data" || true
}
alive() { kill -0 "$pid" 2>/dev/null; }

# The lines that can be pasted into a shell, a continued line as one. The requests
# of simulated providers come last.
calls() { sed -e ':a' -e '/\\$/{N;s/\\\n[[:space:]]*//;ba' -e '}' "$log" | sed -n -e 's/^[[:space:]]*\(grpcurl .*\)$/\1/p' -e 's/^  \(onceward request .*\)$/\1/p'; }

say 'clone HEAD'
if [ -n "$(git -C "$root" status --porcelain 2>/dev/null)" ]; then
  say 'note: changes that are not committed are not tested'
fi
git clone --quiet --no-hardlinks "$root" "$tmp/onceward"
cd "$tmp/onceward"

say 'make build'
make build
say 'make grpcurl'
make grpcurl >/dev/null
export PATH=$PWD/bin:$PWD/bin/tools:$PATH

dev=
while IFS= read -r command; do
  case $command in
    *' dev '*) dev=$command ;;
    *)
      say "$command"
      answer=$(timeout "$prove_seconds" bash -c "$command" </dev/null 2>&1) || die "that command failed: $answer"
      printf '%s\n' "$answer" | tail -n 1 | sed 's/^/             /'
      ;;
  esac
done < <(declared)
[ -n "$dev" ] || die 'the README starts no onceward dev in its section about declared providers'

say "$dev"
export ONCEWARD_DATA_DIR=$tmp/data ONCEWARD_LISTEN=127.0.0.1:0
# Job control gives it a process group of its own.
set -m
bash -c "exec $dev" >"$log" 2>&1 </dev/null &
pid=$!
set +m

deadline=$((SECONDS + start_seconds))
until [ "$(calls | wc -l)" -ge "$lines_wanted" ]; do
  alive || die 'onceward dev ended before it was ready'
  [ "$SECONDS" -lt "$deadline" ] || die "onceward dev printed $(calls | wc -l) of $lines_wanted lines to paste in ${start_seconds}s"
  sleep 0.1
done
say 'onceward dev is ready'

while IFS= read -r call; do
  say "$call"
  status=0
  answer=$(timeout "$call_seconds" bash -c "$call" </dev/null 2>&1) || status=$?
  printf '%s\n' "$answer" | sed 's/^/             /'
  [ "$status" -eq 0 ] || die "that call failed with exit code $status"
  [ -n "${answer//[[:space:]]/}" ] || die 'that call answered nothing'
  alive || die 'onceward dev ended during that call'
done < <(calls)

say 'stop onceward dev'
kill -INT "$pid"
deadline=$((SECONDS + stop_seconds))
while alive; do
  [ "$SECONDS" -lt "$deadline" ] || die "onceward dev did not stop in ${stop_seconds}s"
  sleep 0.1
done
status=0
wait "$pid" || status=$?
[ "$status" -eq 0 ] || die "onceward dev stopped with exit code $status"
[ -z "$(left_over)" ] || die "onceward dev left processes behind: $(left_over | tr '\n' ' ')"
pid=
say 'done: the README works in a fresh clone'
