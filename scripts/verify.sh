#!/usr/bin/env bash
# Checks what no compiler checks: that generated files are what their sources
# generate, that the protos are clean and break nobody, that the modules are
# tidy, and that the code is formatted and vetted.
#
# It reports everything that is wrong, not only the first, and changes nothing:
# generating happens in a copy, so that it works on a work tree with changes and
# sees files whose source is gone.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
buf=${BUF:?make verify sets it}
image=${PROTO_IMAGE:?make verify sets it}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=()

# check NAME ADVICE COMMAND...: runs the command, and remembers a failure.
check() {
  local name=$1 advice=$2
  shift 2
  if "$@" >"$tmp/output" 2>&1; then
    printf 'ok    %s\n' "$name"
  else
    failed+=("$name")
    printf 'FAIL  %s\n' "$name"
    sed -e 's/^/      /' -e '60{s/$/\n      (and so on)/;q}' "$tmp/output"
    printf '      -> %s\n' "$advice"
  fi
}

generated() {
  local copy=$tmp/tree
  mkdir -p "$copy/before"
  git ls-files -coz --exclude-standard | while IFS= read -r -d '' file; do
    # A file that is deleted but still in the index has nothing to copy.
    if [ -e "$file" ]; then printf '%s\0' "$file"; fi
  done | tar --null -T - -cf - | tar -C "$copy/before" -xf -
  cp -R "$copy/before" "$copy/after"
  (
    cd "$copy/after"
    # Nothing else would notice a generated file whose proto is gone.
    find proto -name '*.pb.go' -delete
    "$buf" generate
    "$go" generate ./...
  )
  (cd "$copy" && diff -ruN before after)
}

image_current() {
  "$buf" build --exclude-source-info -o "$tmp/image.binpb"
  cmp "$tmp/image.binpb" "$image"
}

formatted() {
  local files
  files=$(gofmt -l .)
  if [ -n "$files" ]; then
    echo "$files"
    return 1
  fi
}

check 'generated files are current' \
  'run "make generate" and commit what changed' generated
check 'protos pass buf lint' \
  'mend the protos' "$buf" lint
check 'protos break no caller' \
  'keep what callers know; see proto-image in the Makefile' "$buf" breaking --against "$image"
check "$image holds every message and method" \
  'run "make proto-image" and commit it with the protos' image_current
for mod in go.mod tools/*/go.mod bench/go.mod catalog/stripemock/go.mod deploy/go.mod deploy/collector/go.mod; do
  check "$mod is tidy" \
    "run \"go mod tidy\" in $(dirname "$mod")" "$go" -C "$(dirname "$mod")" mod tidy -diff
done
check 'Go files are formatted' \
  'run "gofmt -w" on these files' formatted
check 'go vet' \
  'mend what it found' "$go" vet ./...

if [ ${#failed[@]} -gt 0 ]; then
  printf 'verify: %d not in order\n' "${#failed[@]}" >&2
  exit 1
fi
echo 'verify: all in order'
