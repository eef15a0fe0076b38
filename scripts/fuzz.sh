#!/usr/bin/env bash
# Runs every fuzz target in turn, each for its part of the time for all.
#
#   FUZZTOTAL  time for all together, in whole seconds (600s) or minutes (10m, the default)
#   FUZZTIME   time for each in its place, as in 30s
#   FUZZONLY   a regular expression: only the targets whose folder and name it matches
#
# An input that finds something is left in the target's testdata/fuzz: commit it,
# with what mends it, and it is tried by every `make test`. All targets run, also
# after one that found something; then it fails, as it does where one tried nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
total=${FUZZTOTAL:-10m}
only=${FUZZONLY:-.}

seconds() {
  case $1 in
    *m) echo $((${1%m} * 60)) ;;
    *s) echo "${1%s}" ;;
    *) echo "fuzz: $1: want seconds (600s) or minutes (10m)" >&2; return 1 ;;
  esac
}

mapfile -t targets < <(git ls-files -co --exclude-standard -- '*_test.go' |
  xargs -r grep -HoE '^func Fuzz[A-Za-z0-9_]*' | sed 's/:func /:/' | sort | grep -E "$only")
if [ "${#targets[@]}" -eq 0 ]; then
  echo 'fuzz: found no fuzz target' >&2
  exit 1
fi

# A target that needs a Postgres starts one within its time and tries a tenth as many
# inputs: it gets three parts.
whole() { grep -qE 'pgtest|apptest' "$1"/*_test.go; }
parts=0
for target in "${targets[@]}"; do
  if whole "${target%/*}"; then parts=$((parts + 3)); else parts=$((parts + 1)); fi
done
each=${FUZZTIME:-$(($(seconds "$total") / parts))s}
if [ "$(seconds "$each")" -lt 1 ]; then
  echo "fuzz: $total is less than a second for each of $parts parts of ${#targets[@]} targets" >&2
  exit 1
fi

out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=() idle=()
more=', three times that with a Postgres'
if [ -n "${FUZZTIME:-}" ]; then more=; fi
printf 'fuzz: %d targets, %s each%s\n' "${#targets[@]}" "$each" "$more"
for target in "${targets[@]}"; do
  name=${target##*:} dir=${target%/*}
  workers=() time=$each
  # One Postgres will do, not one for each worker.
  if whole "$dir"; then
    workers=(-parallel=1)
    time=${FUZZTIME:-$((3 * ${each%s}))s}
  fi
  began=$SECONDS verdict=ok
  # Making an input smaller is worth little for whole servers, and must not use up
  # the time of the target.
  if ! "$go" test -run='^$' -fuzz="^${name}\$" -fuzztime="$time" -fuzzminimizetime=2s "${workers[@]}" "./$dir" >"$out" 2>&1; then
    # Where the time is over while a worker answers, go test fails with these words and
    # without an input (golang/go#75804, mended in Go 1.27).
    if grep -qE '^ +context deadline exceeded$' "$out" && ! grep -qE 'Failing input written|panic:|_test\.go:' "$out"; then
      verdict=ok
    else
      verdict=FOUND
      failed+=("$dir $name")
    fi
  fi
  execs=$(grep -oE 'execs: [0-9]+' "$out" | tail -1 | cut -d' ' -f2 || true)
  fresh=$(grep -oE 'new interesting: [0-9]+' "$out" | tail -1 | cut -d' ' -f3 || true)
  if [ "$verdict" = ok ] && [ "${execs:-0}" -eq 0 ]; then verdict=IDLE; fi
  printf '%-6s %-22s %-28s %9s execs %5s new %4ds\n' "$verdict" "$name" "$dir" "${execs:-0}" "${fresh:-0}" "$((SECONDS - began))"
  if [ "$verdict" = FOUND ]; then tail -40 "$out"; fi
  # Its time went by with the inputs that are known already: nothing was tried.
  if [ "$verdict" = IDLE ]; then idle+=("$dir $name"); fi
done

if [ "${#failed[@]}" -gt 0 ]; then
  printf 'fuzz: %s\n' "${failed[@]}" >&2
fi
if [ "${#idle[@]}" -gt 0 ]; then
  printf 'fuzz: had no time to try anything: %s\n' "${idle[@]}" >&2
fi
if [ $((${#failed[@]} + ${#idle[@]})) -gt 0 ]; then exit 1; fi
echo 'fuzz: nothing found'
