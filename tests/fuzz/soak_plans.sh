#!/bin/bash
# soak_plans.sh: plans.c for as long as one likes; what fails lies in a directory, and the figures in a log.
#
#   tests/fuzz/soak_plans.sh SECONDS [DIR]      DIR: for what is found (default: build/plans-found)
#
# BUILD=DIR is where fuzz_plans was built (default: build), with MDL_SANITIZE; JOBS=N processes (default: 1); SEED=N.
# What is found is run again by `fuzz_plans --replay FILE`. What is mended joins tests/unsound_plans_test.c.
set -euo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
out=${2:-$BUILD/plans-found}
seed=${SEED:-$RANDOM}
mkdir -p "$out"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16:malloc_context_size=4
status=0 jobs=()
for ((i = 0; i < ${JOBS:-1}; i++)); do
  nice -n 19 "$BUILD/tests/fuzz_plans" --seconds "$1" --seed "$((seed + i))" --out "$out" \
    tests/layouts tests/programs tests/ir > "$out/log-$((seed + i)).txt" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do
  wait "$job" || status=1
done
tail -n 1 "$out"/log-*.txt
exit "$status"
