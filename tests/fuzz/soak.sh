#!/bin/bash
# soak.sh: fuzz.c for as long as one likes, a process for each core; what fails lies, small, in a directory.
#
#   tests/fuzz/soak.sh SECONDS [DIR]      DIR: for what is found (default: build/fuzz-found)
#
# BUILD=DIR is where tests/fuzz was built (default: build); a build with MDL_SANITIZE finds more and is slower: LIMIT=30
# gives each layout that many seconds. A text that is mended joins tests/fuzz/found.
set -euo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
out=${2:-$BUILD/fuzz-found}
mkdir -p "$out"
jobs=()
for ((i = 0; i < $(nproc); i++)); do
  ASAN_OPTIONS=detect_leaks=0 nice "$BUILD/tests/fuzz" --seconds "$1" --seed "$((RANDOM * 1000 + i))" \
    --limit "${LIMIT:-5}" --out "$out" tests/programs tests/layouts tests/ir tests/fmt models examples &
  jobs+=($!)
done
status=0
for job in "${jobs[@]}"; do
  wait "$job" || status=1
done
exit "$status"
