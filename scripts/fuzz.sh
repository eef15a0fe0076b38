#!/usr/bin/env bash
# Runs each fuzz target in turn. FUZZTIME is the time for each (default 30s).
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
fuzztime=${FUZZTIME:-30s}
count=0

# A target that needs a Postgres starts one for each worker: one will do.
workers() {
  if grep -q 'pgtest' "${1%/*}"/*_test.go; then echo -parallel=1; fi
}

while IFS=: read -r file target; do
  count=$((count + 1))
  printf '== %s in %s for %s\n' "$target" "${file%/*}" "$fuzztime"
  "$go" test -run='^$' -fuzz="^${target}\$" -fuzztime="$fuzztime" $(workers "$file") "./${file%/*}"
done < <(git ls-files -co --exclude-standard -- '*_test.go' |
  xargs -r grep -HoE '^func Fuzz[A-Za-z0-9_]*' | sed 's/:func /:/' | sort)

if [ "$count" -eq 0 ]; then
  echo 'fuzz: found no fuzz target' >&2
  exit 1
fi
echo "fuzz: $count targets, nothing found"
