#!/bin/bash
# soak_readers.sh: every reader under libFuzzer, one after the other; a line of figures for each.
#
#   tests/fuzz/soak_readers.sh SECONDS [READER...]      SECONDS for each; all readers by default
#
# BUILD=DIR is where `libfuzzer` was built (default: build-fuzz), with clang, MDL_SANITIZE and MDL_FUZZ; RUNS=N ends a
# reader after so many inputs. What was learned stays in BUILD/corpus/READER, so that the next soak goes on from it; what
# fails lies in BUILD/found, and is run again by `libfuzzer READER FILE`. What is mended joins tests/fuzz/found/READER.
set -euo pipefail
cd "$(dirname "$0")/../.."
BUILD=$(realpath "${BUILD:-build-fuzz}")
seconds=$1
shift
mkdir -p "$BUILD/found"
[ -d "$BUILD/seeds" ] || BUILD=$BUILD tests/fuzz/seeds.sh "$BUILD/seeds"
export ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=16:malloc_context_size=6 UBSAN_OPTIONS=print_stacktrace=1
status=0
if [ $# = 0 ]; then
  for seed in "$BUILD"/seeds/*; do set -- "$@" "$(basename "$seed")"; done
fi
printf '%-12s %10s %10s %8s %8s %8s %6s\n' reader seconds inputs accepted features corpus found
for reader in "$@"; do
  log=$BUILD/found/$reader.log begun=$(date +%s)
  mkdir -p "$BUILD/corpus/$reader"
  nice -n 19 "$BUILD/tests/libfuzzer" "$reader" -max_total_time="$seconds" -runs="${RUNS:--1}" -timeout=60 -rss_limit_mb=4096 \
    -reload=0 -artifact_prefix="$BUILD/found/$reader-" "$BUILD/corpus/$reader" "$BUILD/seeds/$reader" > "$log" 2>&1 || status=1
  features=$(grep -o 'ft: [0-9]*' "$log" | tail -n 1 | cut -d ' ' -f 2) || true
  sums=$(grep "^$reader: .* inputs, " "$log" | tail -n 1 | tr -dc '0-9 ' | tr -s ' ') || true
  found=$(find "$BUILD/found" -name "$reader-crash*" -o -name "$reader-timeout*" -o -name "$reader-oom*" -o -name "$reader-leak*" | wc -l)
  # shellcheck disable=SC2086
  printf '%-12s %10s %10s %8s %8s %8s %6s\n' "$reader" $(($(date +%s) - begun)) ${sums:-? ?} "${features:-?}" \
    "$(find "$BUILD/corpus/$reader" -type f | wc -l)" "$found"
done
exit "$status"
